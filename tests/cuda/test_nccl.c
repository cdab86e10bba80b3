/* NCCL: every way to fail has a message of its own, and collectives get what they mean. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "comm/nccl/nccl.h"
#include "comm/nccl/nccl_library.h"
#if __has_include(<nccl.h>) && __has_include(<cuda_runtime_api.h>)
#include <nccl.h>
#define HAS_HEADER 1
#else
#define HAS_HEADER 0
#endif

#define DOUBLE TEST_BINARY_DIR "/lib/tests/nccl_double.so"

static void expect_message(const char *const *words)
{
    char text[4096] = "";
    size_t n;

    fflush(stderr);
    n = fread(text, 1, sizeof text - 1, cr_get_redirected_stderr());
    text[n] = '\0';
    for (; *words != NULL; words++) {
        cr_assert(strstr(text, *words) != NULL, "no '%s' in: %s", *words, text);
    }
    cr_assert_eq(strchr(text, '\n') - text + 1, (long)n, "one line: %s", text);
}

#define MESSAGE(...) expect_message((const char *const[]){__VA_ARGS__, NULL})

Test(nccl, library_missing, .init = cr_redirect_stderr)
{
    struct nccl_library *lib = NULL;

    cr_assert_eq(nccl_load("libno-such-nccl.so.2", &lib), ST_UNSUPPORTED);
    cr_assert_null(lib);
    MESSAGE("backend = nccl", "library is missing", "libno-such-nccl.so.2", "install libnccl2");
}

Test(nccl, function_missing, .init = cr_redirect_stderr)
{
    struct nccl_library *lib = NULL;

    cr_assert_eq(nccl_load("libm.so.6", &lib), ST_UNSUPPORTED);
    cr_assert_null(lib);
    cr_assert_eq(mem_live(), 0);
    MESSAGE("libm.so.6 has no function ncclGetVersion", "NCCL 2.13");
}

Test(nccl, version_fails, .init = cr_redirect_stderr)
{
    struct nccl_library *lib = NULL;

    setenv("ESPALIER_NCCL_DOUBLE", "version", 1);
    cr_assert_eq(nccl_load(DOUBLE, &lib), ST_UNSUPPORTED);
    cr_assert_eq(mem_live(), 0);
    MESSAGE("does not tell its version", "a double's error");
}

Test(nccl, out_of_memory)
{
    struct nccl_library *lib = NULL;

    mem_fail_at(1);
    cr_assert_eq(nccl_load(DOUBLE, &lib), ST_NOMEM);
    cr_assert_null(lib);
}

Test(nccl, both_ways_to_write_a_version)
{
    struct nccl_library *lib = NULL;

    cr_assert_eq(nccl_load(DOUBLE, &lib), ST_OK);
    cr_assert_str_eq(nccl_version(lib), "NCCL 2.28.9");
    nccl_unload(lib);
    setenv("ESPALIER_NCCL_DOUBLE", "old", 1);
    cr_assert_eq(nccl_load(DOUBLE, &lib), ST_OK);
    cr_assert_str_eq(nccl_version(lib), "NCCL 2.8.4");
    nccl_unload(lib);
}

Test(nccl, the_library_of_this_machine, .init = cr_redirect_stderr)
{
    struct nccl_library *lib = NULL;
    int devices[] = {0};
    struct nccl *n = NULL;

    if (!HAS_HEADER || nccl_load(NULL, &lib) != ST_OK) {
        cr_skip_test("NCCL is not installed");
    }
#if HAS_HEADER
    char want[32];

    snprintf(want, sizeof want, "NCCL %d.%d.", NCCL_MAJOR, NCCL_MINOR);
    cr_assert_eq(strncmp(nccl_version(lib), want, strlen(want)), 0, "%s", nccl_version(lib));
    cr_assert_eq(NCCL_DTYPE_FLOAT32, ncclFloat32);
    cr_assert_eq(NCCL_DTYPE_BFLOAT16, ncclBfloat16);
    cr_assert_eq(NCCL_DTYPE_FLOAT16, ncclFloat16);
    cr_assert_eq(NCCL_DTYPE_INT32, ncclInt32);
    cr_assert_eq(NCCL_REDOP_SUM, ncclSum);
    cr_assert_eq(NCCL_REDOP_MAX, ncclMax);
    cr_assert_eq(NCCL_REDOP_MIN, ncclMin);
    cr_assert_eq(NCCL_REDOP_AVG, ncclAvg);
    cr_assert_eq(NCCL_RESULT_OK, ncclSuccess);
    cr_assert_eq(NCCL_RESULT_IN_PROGRESS, ncclInProgress);
#endif
    if (access("/dev/nvidiactl", F_OK) != 0) { /* its own reason for failing */
        struct nccl_args args = {
            .lib = lib, .device = &device_cpu, .devices = devices, .n_ranks = 1, .timeout_s = 1};
        cr_assert_eq(nccl_create(&args, &n), ST_UNSUPPORTED);
        cr_assert_null(n);
        MESSAGE(nccl_version(lib), "ncclCommInitAll failed", "cuda error", "NCCL_DEBUG=INFO");
    }
    nccl_unload(lib);
}

/* As a backend for memory of the host. */
Test(nccl, a_backend_without_devices, .init = cr_redirect_stderr)
{
    struct plan_request q = {.collective = COLL_ALLREDUCE, .n_ranks = 2, .root = -1};
    struct topo *t = NULL;
    struct plan *p = NULL;

    cr_assert_eq(topo_mesh(2, 1000, 1, &t), ST_OK);
    cr_assert_eq(plan_create("nccl", t, &q, &p), ST_UNSUPPORTED);
    cr_assert_null(p);
    MESSAGE("backend = nccl");
    topo_destroy(t);
}

/* --- devices that are there, and are not */

static int n_devices = 8;

static enum status count_devices(int *n)
{
    if (n_devices == 0) {
        fputs("there is no device\n", stderr); /* whoever detects it says it */
        return ST_UNSUPPORTED;
    }
    *n = n_devices;
    return ST_OK;
}

static bool finished = true;

static enum status is_done(void *set, void *event, bool *out)
{
    (void)set;
    (void)event;
    *out = finished;
    return ST_OK;
}

struct fixture {
    struct device_ops device;
    struct nccl_library *lib;
    struct nccl_args args;
    int devices[8];
    void *handles[8];
    struct nccl *n;
};

static void begin(struct fixture *f, int n_ranks)
{
    memset(f, 0, sizeof *f);
    f->device = device_cpu;
    f->device.count = count_devices;
    f->device.done = is_done;
    cr_assert_eq(nccl_load(DOUBLE, &f->lib), ST_OK);
    for (int r = 0; r < 8; r++) {
        f->devices[r] = r;
    }
    f->args = (struct nccl_args){.lib = f->lib,
                                 .device = &f->device,
                                 .devices = f->devices,
                                 .n_ranks = n_ranks,
                                 .timeout_s = 0.01};
}

static void end(struct fixture *f)
{
    nccl_destroy(f->n);
    nccl_unload(f->lib);
    cr_assert_eq(mem_live(), 0);
}

Test(nccl, no_device, .init = cr_redirect_stderr)
{
    struct fixture f;

    begin(&f, 2);
    n_devices = 0;
    cr_assert_eq(nccl_create(&f.args, &f.n), ST_UNSUPPORTED);
    MESSAGE("there is no device");
    end(&f);
}

Test(nccl, fewer_devices_than_ranks, .init = cr_redirect_stderr)
{
    struct fixture f;

    begin(&f, 4);
    n_devices = 3;
    cr_assert_eq(nccl_create(&f.args, &f.n), ST_INPUT);
    MESSAGE("no device cpu:3 for rank 3", "3 are visible");
    end(&f);
}

Test(nccl, two_ranks_on_a_device, .init = cr_redirect_stderr)
{
    struct fixture f;

    begin(&f, 4);
    f.devices[3] = 1;
    cr_assert_eq(nccl_create(&f.args, &f.n), ST_INPUT);
    MESSAGE("ranks 1 and 3 are both on cpu:1", "another backend");
    end(&f);
}

Test(nccl, init_fails, .init = cr_redirect_stderr)
{
    struct fixture f;

    begin(&f, 2);
    setenv("ESPALIER_NCCL_DOUBLE", "init", 1);
    cr_assert_eq(nccl_create(&f.args, &f.n), ST_UNSUPPORTED);
    MESSAGE("NCCL 2.28.9", "ncclCommInitAll", "a double's error", "said by the double");
    end(&f);
}

/* --- collectives */

enum {
    N = 24
};

static float element(int rank, size_t i)
{
    return (float)((size_t)rank * 100 + i * 3 % 17);
}

static float summed(size_t i, int n_ranks)
{
    float sum = 0;

    for (int r = 0; r < n_ranks; r++) {
        sum += element(r, i);
    }
    return sum;
}

static void run(struct fixture *f, enum collective c, float in[][N], float out[][N], int root)
{
    const void *ins[8];
    void *outs[8];
    struct nccl_call call = {.collective = c,
                             .dtype = DTYPE_F32,
                             .redop = REDOP_SUM,
                             .n = N,
                             .root = root,
                             .in = ins,
                             .out = outs,
                             .streams = f->handles};

    for (int r = 0; r < f->args.n_ranks; r++) {
        for (size_t i = 0; i < N; i++) {
            in[r][i] = element(r, i);
            out[r][i] = -1.0f;
        }
        ins[r] = in[r];
        outs[r] = out[r];
    }
    cr_assert_eq(nccl_start(f->n, &call), ST_OK);
    cr_assert_eq(nccl_wait(f->n, f->handles), ST_OK);
}

Test(nccl, collectives_mean_what_ours_mean)
{
    for (int p = 1; p <= 8; p++) {
        static float in[8][N], out[8][N];
        struct fixture f;
        size_t block = N / (size_t)p;
        begin(&f, p);
        cr_assert_eq(nccl_create(&f.args, &f.n), ST_OK);
        for (int r = 0; r < p; r++) {
            run(&f, COLL_BROADCAST, in, out, p / 2);
            cr_assert_eq(out[r][5], element(p / 2, 5));
            run(&f, COLL_REDUCE, in, out, p / 2);
            cr_assert_eq(out[r][5], r == p / 2 ? summed(5, p) : -1.0f);
            run(&f, COLL_ALLREDUCE, in, out, -1);
            cr_assert_eq(out[r][N - 1], summed(N - 1, p));
            if (N % p == 0) {
                run(&f, COLL_REDUCE_SCATTER, in, out, -1);
                cr_assert_eq(out[r][block - 1], summed((size_t)(r + 1) * block - 1, p));
                cr_assert(block == N || out[r][block] == -1.0f);
                run(&f, COLL_ALLGATHER, in, out, -1);
                cr_assert_eq(out[r][N - 1], element(p - 1, block - 1));
                cr_assert_eq(out[r][0], element(0, 0));
            }
        }
        end(&f);
    }
}

Test(nccl, blocks_that_do_not_divide, .init = cr_redirect_stderr)
{
    struct fixture f;
    struct nccl_call call = {.collective = COLL_ALLGATHER, .n = 25};

    begin(&f, 4);
    cr_assert_eq(nccl_create(&f.args, &f.n), ST_OK);
    call.streams = f.handles;
    cr_assert_eq(nccl_start(f.n, &call), ST_UNSUPPORTED);
    MESSAGE("allgather of 25 elements", "4 ranks");
    end(&f);
}

Test(nccl, a_call_fails, .init = cr_redirect_stderr)
{
    struct fixture f;
    const void *in[2] = {"", ""};
    void *out[2] = {NULL, NULL};
    struct nccl_call call = {.collective = COLL_ALLREDUCE, .in = in, .out = out};

    begin(&f, 2);
    cr_assert_eq(nccl_create(&f.args, &f.n), ST_OK);
    call.streams = f.handles;
    setenv("ESPALIER_NCCL_DOUBLE", "call", 1);
    cr_assert_eq(nccl_start(f.n, &call), ST_INTERNAL);
    MESSAGE("allreduce failed", "a double's error");
    end(&f);
}

/* The library ends what hangs only when all communicators are aborted. */
static void expect_abort(const char *fault, enum status want)
{
    struct fixture f;
    int (*aborts)(void);
    void *handle = dlopen(DOUBLE, RTLD_NOW);
    void *symbol = handle != NULL ? dlsym(handle, "nccl_double_aborts") : NULL;

    cr_assert_not_null(symbol);
    memcpy(&aborts, &symbol, sizeof aborts);
    begin(&f, 3);
    cr_assert_eq(nccl_create(&f.args, &f.n), ST_OK);
    finished = false;
    setenv("ESPALIER_NCCL_DOUBLE", fault, 1);
    cr_assert_eq(nccl_wait(f.n, f.handles), want);
    cr_assert_eq(aborts(), 3);
    cr_assert_eq(nccl_wait(f.n, f.handles), ST_PEER);
    end(&f);
}

Test(nccl, time_out_aborts, .init = cr_redirect_stderr)
{
    expect_abort("none", ST_TIMEOUT);
    MESSAGE("3 ranks timed out", "timeout_s");
}

Test(nccl, an_error_on_the_way_aborts, .init = cr_redirect_stderr)
{
    expect_abort("async", ST_INTERNAL);
    MESSAGE("a collective failed", "a double's error");
}
