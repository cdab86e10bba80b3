#include "comm/merge.h"

#include <criterion/criterion.h>

#include "base/rng.h"

enum {
    MOST = 10
};

/* A message of s bytes takes 3 + s seconds. */
static const struct merge_cost cost = {3, 1};

static void check(const struct merge_layer *layers, size_t n, const char *want, double end_s)
{
    bool ends[MOST];
    size_t n_messages = merge_layers(layers, n, &cost, ends), n_want = 0;

    for (size_t i = 0; i < n; i++) {
        cr_assert_eq(ends[i], want[i] == '|', "%s at %zu", want, i);
        n_want += want[i] == '|';
    }
    cr_assert_eq(n_messages, n_want);
    cr_assert_float_eq(merge_end_s(layers, n, &cost, ends), end_s, 1e-12, "%s", want);
}

Test(merge, layers_worked_by_hand)
{
    /* The message of layer 0 ends (1 + 3 + 4 = 8) before layer 1 is ready at 10: apart. */
    check((struct merge_layer[]){{1, 4}, {9, 4}}, 2, "||", 17);
    /* Layer 1 is ready at 2, less than a start-up after 1: together, 2 + 3 + 8. */
    check((struct merge_layer[]){{1, 4}, {1, 4}}, 2, ".|", 13);
    /* Layer 1 is ready at 5, before the end at 8 but 4 > 3 after the start: apart, 8 + 7. */
    check((struct merge_layer[]){{1, 4}, {4, 4}}, 2, "||", 15);
    /* Exactly a start-up later nothing is won: apart. */
    check((struct merge_layer[]){{1, 4}, {3, 4}}, 2, "||", 15);
    /* Layer 1 waits for the message of layer 0 until 24 and joins layer 2, ready at 7: 24 + 5. */
    check((struct merge_layer[]){{1, 20}, {5, 1}, {1, 1}}, 3, "|.|", 29);
    /* Layers without bytes delay nothing and send nothing. */
    check((struct merge_layer[]){{1, 0}, {9, 0}, {1, 4}, {20, 0}}, 4, "..||", 31);
    check((struct merge_layer[]){{2, 0}}, 1, "|", 2);
    check((struct merge_layer[]){{2, 5}}, 1, "|", 10);
    cr_assert_eq(merge_layers(NULL, 0, &cost, NULL), 0);
}

/* The best end over all ways to group. */
static double best_end(const struct merge_layer *layers, size_t n)
{
    double best = -1;

    for (unsigned set = 0; set < 1U << (n - 1); set++) {
        bool ends[MOST];
        for (size_t i = 0; i < n; i++) {
            ends[i] = i + 1 == n || (set >> i & 1);
        }
        double end = merge_end_s(layers, n, &cost, ends);
        best = best < 0 || end < best ? end : best;
    }
    return best;
}

Test(merge, is_never_worse_than_layer_by_layer_and_rarely_off_the_best)
{
    struct rng rng = rng_make(1, RNG_TEST, 0);
    const bool each[MOST] = {true, true, true, true, true, true, true, true, true, true};
    uint64_t drawn = 0;
    const int n_tries = 2000;
    int n_best = 0;
    double worst = 1;

    for (int k = 0; k < n_tries; k++) {
        struct merge_layer layers[MOST];
        bool ends[MOST];
        size_t n = 1 + (size_t)rng_below(&rng, drawn++, MOST);
        for (size_t i = 0; i < n; i++) {
            layers[i].backward_s = (double)rng_below(&rng, drawn++, 12);
            layers[i].bytes = 1 + rng_below(&rng, drawn++, 10);
        }
        (void)merge_layers(layers, n, &cost, ends);
        double end = merge_end_s(layers, n, &cost, ends), best = best_end(layers, n);
        cr_assert_leq(best, end);
        cr_assert_leq(end, merge_end_s(layers, n, &cost, each));
        n_best += end == best;
        worst = end / best > worst ? end / best : worst;
    }
    cr_assert_gt(n_best, 3 * n_tries / 4);
    cr_assert_lt(worst, 1.2);
}

Test(merge, weighing_all_cuts_finds_the_best)
{
    struct rng rng = rng_make(2, RNG_TEST, 0);
    uint64_t drawn = 0;

    for (int k = 0; k < 2000; k++) {
        struct merge_layer layers[MOST];
        struct merge_step work[MOST + 1];
        bool ends[MOST];
        size_t n = 1 + (size_t)rng_below(&rng, drawn++, MOST), n_messages, n_ends = 0;
        for (size_t i = 0; i < n; i++) {
            layers[i].backward_s = (double)rng_below(&rng, drawn++, 12);
            layers[i].bytes = rng_below(&rng, drawn++, 10);
        }
        n_messages = merge_best(layers, n, &cost, work, ends);
        for (size_t i = 0; i < n; i++) {
            n_ends += ends[i];
        }
        cr_assert(ends[n - 1] && n_ends == n_messages);
        cr_assert_eq(merge_end_s(layers, n, &cost, ends), best_end(layers, n));
    }
    cr_assert_eq(merge_best(NULL, 0, &cost, &(struct merge_step){0, 0}, NULL), 0);
}

/* Each layer is ready less than a start-up after the one before, so the rule waits for all twelve;
 * the best cut sends the half that is large while the other half is computed. */
Test(merge, waiting_for_each_next_layer_can_be_waiting_too_long)
{
    struct merge_layer layers[12];
    struct merge_step work[13];
    bool ends[12];

    for (size_t i = 0; i < 12; i++) {
        layers[i] = (struct merge_layer){2, i < 6 ? 4 : 1};
    }
    cr_assert_eq(merge_layers(layers, 12, &cost, ends), 1);
    cr_assert_float_eq(merge_end_s(layers, 12, &cost, ends), 24 + 3 + 30, 1e-12);
    cr_assert_gt(merge_best(layers, 12, &cost, work, ends), 1);
    cr_assert_lt(merge_end_s(layers, 12, &cost, ends), 24 + 3 + 30 - 8);
}
