#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/text.h"

Test(status, every_status_has_text_and_exit_code)
{
    cr_assert_str_eq(status_text(ST_OK), "success");
    cr_assert_eq(status_exit_code(ST_OK), 0);
    cr_assert_eq(status_exit_code(ST_IO), 1);
    cr_assert_eq(status_exit_code(ST_INPUT), 2);
    cr_assert_eq(status_exit_code(ST_NONFINITE), 3);
    cr_assert_eq(status_exit_code(ST_TIMEOUT), 4);
    cr_assert_eq(status_exit_code(ST_PEER), 4);
}

Test(mem, blocks_are_zeroed_aligned_and_counted)
{
    size_t sizes[] = {
        0, 1, 63, 64, 4097, ((size_t)2 << 20) - 1, (size_t)2 << 20, ((size_t)5 << 20) + 3};
    size_t live = mem_live();

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *p = mem_alloc(sizes[i], 1);
        cr_assert_not_null(p);
        cr_assert_eq((uintptr_t)p % (sizes[i] >= (size_t)2 << 20 ? (size_t)2 << 20 : 64), 0);
        for (size_t k = 0; k < sizes[i]; k++) {
            cr_assert_eq(p[k], 0);
        }
        memset(p, 0xff, sizes[i]);
        cr_assert_eq(mem_live(), live + 1);
        mem_free(p);
    }
    cr_assert_eq(mem_live(), live);
    mem_free(NULL);
}

Test(mem, overflow_and_injected_failures_give_null)
{
    void *p;

    cr_assert_null(mem_alloc(SIZE_MAX / 2, 3));
    mem_fail_at(2);
    p = mem_alloc(1, 1);
    cr_assert_not_null(p);
    cr_assert_null(mem_alloc(1, 1));
    mem_free(p);
    p = mem_alloc(1, 1);
    cr_assert_not_null(p, "only the k-th allocation fails");
    mem_free(p);
}

Test(mem, the_machine_s_memory_is_given_once)
{
    const size_t bytes = (size_t)5 << 20, room = mem_room_bytes();
    void *p = mem_alloc(bytes, 1);

    cr_assert_not_null(p);
    cr_assert_eq(mem_room_bytes(), room - bytes);
    cr_assert_null(mem_alloc(room, 1));
    mem_free(p);
    cr_assert_eq(mem_room_bytes(), room);
}

/* Known answers of Random123's kat_vectors for philox4x32-10: counter and key all zero. */
Test(rng, philox_known_answer)
{
    /* The key is seed ^ (purpose+1)*constant: this seed makes it zero for purpose 0. */
    struct rng r = rng_make(0x9E3779B97F4A7C15u, RNG_INIT, 0);
    uint32_t w[4];

    rng_block(&r, 0, w);
    cr_assert_eq(w[0], 0x6627e8d5u);
    cr_assert_eq(w[1], 0xe169c58du);
    cr_assert_eq(w[2], 0xbc57ac4cu);
    cr_assert_eq(w[3], 0x9b00dbd8u);
}

Test(rng, moments_and_ranges)
{
    struct rng r = rng_make(7, RNG_TEST, 3);
    double sum = 0, square = 0, uniform = 0;
    enum {
        N = 100000
    };

    for (uint64_t i = 0; i < N; i++) {
        double x = rng_normal(&r, i);
        float u = rng_uniform(&r, i);
        sum += x;
        square += x * x;
        uniform += u;
        cr_assert(u >= 0 && u < 1);
        cr_assert_lt(rng_below(&r, i, 7), 7);
    }
    cr_assert_lt(sum / N * (sum / N), 1e-4);
    cr_assert(square / N > 0.98 && square / N < 1.02);
    cr_assert(uniform / N > 0.495 && uniform / N < 0.505);
}

Test(text, numbers_are_whole_or_refused)
{
    static const char *const junk[] = {
        "", " ", "4x", "abc", "0,1", "1e3", "0x20", "99999999999999999999", "--1"};
    static const char *const junk_real[] = {"", "4x", "nan", "inf", "0,1", "0x1p3", "1e999", "1 2"};
    int64_t i = -7;
    double d = -7;
    uint64_t b = 0;
    bool t = false;

    for (size_t k = 0; k < sizeof junk / sizeof junk[0]; k++) {
        cr_assert_not(text_to_i64(junk[k], &i), "%s", junk[k]);
    }
    for (size_t k = 0; k < sizeof junk_real / sizeof junk_real[0]; k++) {
        cr_assert_not(text_to_double(junk_real[k], &d), "%s", junk_real[k]);
    }
    cr_assert(i == -7 && d == -7, "refused text leaves the output alone");
    cr_assert(text_to_i64(" -12 ", &i) && i == -12);
    cr_assert(text_to_double("1e-3", &d) && d == 1e-3);
    cr_assert(text_to_bytes("4K", &b) && b == 4096);
    cr_assert(text_to_bytes("25m", &b) && b == 25u << 20);
    cr_assert(text_to_bytes("2G", &b) && b == (uint64_t)2 << 30);
    cr_assert_not(text_to_bytes("4KB", &b));
    cr_assert_not(text_to_bytes("-1", &b));
    cr_assert_not(text_to_bytes("99999999999G", &b));
    cr_assert(text_to_bool("Yes", &t) && t);
    cr_assert(text_to_bool("0", &t) && !t);
    cr_assert_not(text_to_bool("maybe", &t));
}

Test(text, nearest_name)
{
    static const char *const names[] = {"lr", "momentum", "weight_decay", "batch_per_device"};

    cr_assert_str_eq(text_nearest("momemtum", names, 4), "momentum");
    cr_assert_str_eq(text_nearest("weight-decay", names, 4), "weight_decay");
    cr_assert_null(text_nearest("zzzzzz", names, 4));
    cr_assert_eq(text_distance("kitten", "sitting"), 3);
}
