#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "data/data.h"

static const size_t counts[] = {0, 1, 2, 3, 5, 7, 8, 16, 21, 22, 103, 1000, 8191};
static const int ranks[] = {1, 2, 3, 4, 5, 7, 8, 11, 16};

static size_t expected_steps(const struct schedule *s)
{
    size_t left = s->n, steps = 0, g = s->batch * s->accum * (size_t)s->n_ranks;

    for (; left >= g; left -= g) {
        steps++;
    }
    return steps + (left > 0 && !s->drop_last ? 1 : 0);
}

/* Walk all slices of a step in the order of ranks and micro-batches; returns where they end. */
static size_t walk_step(const struct schedule *s, size_t step, size_t position)
{
    size_t begin = position, global = schedule_slice(s, step, 0, 0).n_global;
    size_t largest = 0, smallest = SIZE_MAX;

    for (int r = 0; r < s->n_ranks; r++) {
        size_t of_rank = 0, micro_largest = 0, micro_smallest = SIZE_MAX, before = SIZE_MAX;
        for (size_t m = 0; m < s->accum; m++) {
            struct slice k = schedule_slice(s, step, r, m);
            cr_assert_eq(k.first, position, "slices are contiguous");
            cr_assert_eq(k.n_global, global);
            cr_assert_leq(k.n, s->batch);
            cr_assert_leq(k.n, before, "the first ones are the larger ones");
            before = k.n;
            micro_largest = k.n > micro_largest ? k.n : micro_largest;
            micro_smallest = k.n < micro_smallest ? k.n : micro_smallest;
            of_rank += k.n;
            position += k.n;
        }
        cr_assert_leq(micro_largest - micro_smallest, 1);
        cr_assert(r == 0 || of_rank <= smallest, "the first ranks have the larger runs");
        largest = of_rank > largest ? of_rank : largest;
        smallest = of_rank < smallest ? of_rank : smallest;
    }
    cr_assert_leq(largest - smallest, 1);
    cr_assert_eq(position - begin, global, "n_global is the sum of all slices");
    cr_assert_gt(global, 0, "no step is empty");
    return position;
}

static void check_schedule(const struct schedule *s)
{
    size_t steps = schedule_steps(s), position = 0;
    size_t g = s->batch * s->accum * (size_t)s->n_ranks;

    cr_assert_eq(steps, expected_steps(s));
    for (size_t step = 0; step < steps; step++) {
        cr_assert(step + 1 == steps || schedule_slice(s, step, 0, 0).n_global == g);
        position = walk_step(s, step, position);
    }
    cr_assert_eq(position, s->drop_last ? s->n / g * g : s->n, "every sample is in one slice");
    cr_assert_eq(schedule_slice(s, steps, 0, 0).n, 0);
    cr_assert_eq(schedule_slice(s, steps, 0, 0).n_global, 0);
}

Test(schedule, slices_cover_every_sample_once)
{
    static const size_t batches[] = {1, 2, 3, 5, 8, 64};
    static const size_t accums[] = {1, 2, 3, 4};

    for (size_t a = 0; a < sizeof counts / sizeof counts[0]; a++) {
        for (size_t b = 0; b < sizeof ranks / sizeof ranks[0]; b++) {
            for (size_t c = 0; c < sizeof batches / sizeof batches[0]; c++) {
                for (size_t e = 0; e < 2 * (sizeof accums / sizeof accums[0]); e++) {
                    struct schedule s = {counts[a], batches[c], accums[e / 2], ranks[b],
                                         e % 2 != 0};
                    check_schedule(&s);
                }
            }
        }
    }
}

Test(schedule, known_slices)
{
    struct schedule s = {.n = 103, .batch = 8, .accum = 1, .n_ranks = 4, .drop_last = false};
    struct slice k;

    cr_assert_eq(schedule_steps(&s), 4);
    k = schedule_slice(&s, 3, 3, 0); /* 7 samples are left: 2, 2, 2 and 1 */
    cr_assert(k.first == 102 && k.n == 1 && k.n_global == 7);
    s.n = 5;
    s.n_ranks = 7;
    k = schedule_slice(&s, 0, 5, 0); /* a rank without a sample */
    cr_assert(k.n == 0 && k.n_global == 5);
    s.drop_last = true; /* fewer samples than one global batch */
    cr_assert_eq(schedule_steps(&s), 0);
}

Test(schedule, huge_batches_do_not_overflow)
{
    struct schedule s = {.n = 10, .batch = SIZE_MAX / 2, .accum = 3, .n_ranks = 16};

    cr_assert_eq(schedule_steps(&s), 1);
    cr_assert_eq(schedule_slice(&s, 0, 0, 0).n_global, 10);
    s.drop_last = true;
    cr_assert_eq(schedule_steps(&s), 0);
}

static void check_permutation(const uint32_t *order, size_t n)
{
    bool *seen = calloc(n + 1, sizeof *seen);

    for (size_t i = 0; i < n; i++) {
        cr_assert(order[i] < n && !seen[order[i]]);
        seen[order[i]] = true;
    }
    free(seen);
}

Test(schedule, orders_are_permutations_by_seed_and_epoch)
{
    uint32_t *a = calloc(8192, sizeof *a), *b = calloc(8192, sizeof *b);

    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        size_t n = counts[c], bytes = n * sizeof *a;
        schedule_order(n, true, 3, 4, a);
        check_permutation(a, n);
        schedule_order(n, true, 3, 4, b);
        cr_assert_arr_eq(a, b, bytes, "a rerun gives the same order");
        if (n >= 16) { /* equal by chance once in 16! */
            schedule_order(n, true, 3, 5, b);
            cr_assert(memcmp(a, b, bytes) != 0, "epochs differ");
            schedule_order(n, true, 4, 4, b);
            cr_assert(memcmp(a, b, bytes) != 0, "seeds differ");
            schedule_order(n, true, 4, 3, b);
            cr_assert(memcmp(a, b, bytes) != 0, "seed and epoch are not interchangeable");
        }
        schedule_order(n, false, 3, 4, b);
        for (size_t i = 0; i < n; i++) {
            cr_assert_eq(b[i], i);
        }
    }
    free(a);
    free(b);
}

/* Each of the 24 orders of 4 samples comes up about as often: chi-square with 23 degrees. */
Test(schedule, orders_are_uniform)
{
    size_t hits[256] = {0};
    double chi = 0;
    enum {
        DRAWS = 24000
    };

    for (uint64_t epoch = 0; epoch < DRAWS; epoch++) {
        uint32_t order[4];
        schedule_order(4, true, 9, epoch, order);
        hits[order[0] | order[1] << 2 | order[2] << 4 | order[3] << 6]++;
    }
    for (size_t i = 0; i < 256; i++) {
        double off = (double)hits[i] - DRAWS / 24.0;
        chi += hits[i] > 0 ? off * off / (DRAWS / 24.0) : 0;
    }
    cr_assert_lt(chi, 60, "chi-square %g", chi); /* exceeded with probability 4e-5 */
}
