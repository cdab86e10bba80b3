#include "comm/tune.h"

#include <criterion/criterion.h>
#include <math.h>

#include "base/rng.h"

enum {
    MB = 1 << 20
};

static struct tune start(size_t first, size_t most, int n_samples)
{
    struct tune_options o = {first, most, n_samples, 0.02};
    struct tune t;

    tune_init(&t, &o);
    return t;
}

/* Report from a table of sizes in MB; returns the number of reports until it settled. */
static int follow(struct tune *t, const double *rate_of_mb, int limit)
{
    int k = 0;

    for (; !tune_is_settled(t) && k < limit; k++) {
        cr_assert_eq(tune_chunk_bytes(t) % MB, 0);
        tune_report(t, rate_of_mb[tune_chunk_bytes(t) / MB]);
    }
    return k;
}

Test(tune, settles_where_blink_did_after_four_iterations)
{
    /* Figure 11: a broadcast over 4 GPUs with chunks of 1, 2, 4 and 8 MB. */
    const double gbs[17] = {[1] = 58, [2] = 66, [4] = 90, [8] = 90, [16] = 90};
    struct tune t = start(MB, 64 * MB, 1);

    cr_assert_eq(follow(&t, gbs, 100), 4);
    cr_assert_eq(tune_chunk_bytes(&t), 8 * MB);
    tune_report(&t, 1000); /* after the end nothing changes */
    cr_assert_eq(tune_chunk_bytes(&t), 8 * MB);
}

Test(tune, goes_down_in_quarters_until_the_peak_is_behind)
{
    const double peak[9] = {[1] = 50, [2] = 60, [4] = 70, [5] = 75, [6] = 80, [7] = 66, [8] = 60};
    const double none[9] = {[1] = 50, [2] = 60, [4] = 70, [5] = 68, [6] = 66, [7] = 64, [8] = 60};
    const double flat[9] = {[1] = 50, [2] = 60, [4] = 70, [5] = 70, [6] = 70, [7] = 70, [8] = 60};
    struct tune t = start(MB, 64 * MB, 1);

    cr_assert_eq(follow(&t, peak, 100), 7); /* 1 2 4 8 7 6 5 */
    cr_assert_eq(tune_chunk_bytes(&t), 6 * MB);
    t = start(MB, 64 * MB, 1);
    cr_assert_eq(follow(&t, none, 100), 7); /* 1 2 4 8 7 6 5, and 4 was the best */
    cr_assert_eq(tune_chunk_bytes(&t), 4 * MB);
    t = start(MB, 64 * MB, 1);
    cr_assert_eq(follow(&t, flat, 100), 5); /* 1 2 4 8 7, as good as 4 */
    cr_assert_eq(tune_chunk_bytes(&t), 7 * MB);
}

Test(tune, keeps_within_its_limits)
{
    struct tune t = start(3 * MB, 20 * MB, 1);

    for (int k = 1; !tune_is_settled(&t); k++) { /* the more the better: 3 6 12 20 */
        cr_assert_leq(tune_chunk_bytes(&t), 20 * MB);
        cr_assert_leq(k, 4);
        tune_report(&t, (double)tune_chunk_bytes(&t));
    }
    cr_assert_eq(tune_chunk_bytes(&t), 20 * MB);
    t = start(4096, 1 << 30, 1);
    for (int k = 1; !tune_is_settled(&t); k++) { /* the fewer the better */
        cr_assert_geq(tune_chunk_bytes(&t), 4096);
        cr_assert_leq(k, 5);
        tune_report(&t, 1.0 / (double)tune_chunk_bytes(&t));
    }
    cr_assert_eq(tune_chunk_bytes(&t), 4096);
    t = start(1, 1, 1);
    tune_report(&t, 5);
    cr_assert(tune_is_settled(&t));
    cr_assert_eq(tune_chunk_bytes(&t), 1);
}

/* Bytes/s of a chain of n_ranks for a message in chunks of b. */
static double chain(int n_ranks, double n, double b)
{
    b = b < n ? b : n;
    return n / ((n_ranks - 2 + n / b) * (5e-6 + b / 20e9));
}

Test(tune, comes_near_the_optimum_of_a_chain_with_and_without_noise)
{
    struct rng rng = rng_make(1, RNG_TEST, 0);
    uint64_t drawn = 0;

    for (int noisy = 0; noisy < 2; noisy++) {
        for (int n_ranks = 3; n_ranks <= 16; n_ranks++) {
            for (double n = 1 << 20; n <= 1 << 30; n *= 4) {
                double best = chain(n_ranks, n, sqrt(n * 5e-6 * 20e9 / (n_ranks - 2)));
                struct tune t = start(16 << 10, (size_t)n, noisy ? 5 : 1);
                int k = 0;
                for (; !tune_is_settled(&t) && k < 200; k++) {
                    double slow = noisy ? 0.01 * (double)rng_below(&rng, drawn++, 20) : 0;
                    tune_report(&t, chain(n_ranks, n, (double)tune_chunk_bytes(&t)) * (1 - slow));
                }
                cr_assert_lt(k, noisy ? 125 : 25, "P=%d n=%g", n_ranks, n);
                cr_assert_geq(chain(n_ranks, n, (double)tune_chunk_bytes(&t)),
                              (noisy ? 0.85 : 0.94) * best, "P=%d n=%g", n_ranks, n);
            }
        }
    }
}

Test(tune, counts_the_best_of_the_samples_and_ignores_what_is_no_rate)
{
    struct tune t = start(100, 1000, 3);

    tune_report(&t, 5);
    tune_report(&t, NAN);
    tune_report(&t, INFINITY);
    tune_report(&t, 0);
    tune_report(&t, -1);
    tune_report(&t, 9);
    cr_assert_eq(tune_chunk_bytes(&t), 100);
    tune_report(&t, 7);
    cr_assert_eq(tune_chunk_bytes(&t), 200);
    tune_report(&t, 1);
    tune_report(&t, 9.1); /* the same as 9 before */
    cr_assert_not(tune_is_settled(&t));
    tune_report(&t, 1);
    cr_assert(tune_is_settled(&t));
    cr_assert_eq(tune_chunk_bytes(&t), 200);
}
