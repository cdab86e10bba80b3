#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/mem.h"
#include "comm/engine/flat.h"

/* Take and finish all of the run that `rank` can get; returns how many items. */
static size_t drain(struct flat *f, uint64_t run, int rank, bool steal, int *seen)
{
    size_t n = 0, item;
    int group;

    while (flat_take(f, run, rank, steal, &item, &group)) {
        seen[item]++;
        n++;
        (void)flat_finish(f, run, group, 0);
    }
    return n;
}

Test(flat, every_item_is_taken_once_in_every_run)
{
    for (int n_groups = 1; n_groups <= 5; n_groups++) {
        for (size_t n_items = 0; n_items <= 11; n_items++) {
            struct flat f;
            int seen[11] = {0};
            cr_assert_eq(flat_init(&f, n_groups, n_items, n_items % 2 == 0), ST_OK);
            for (uint64_t run = 1; run <= 20; run++) {
                size_t n = 0;
                for (int r = 0; r < n_groups; r++) {
                    cr_assert_eq(flat_posted_by_all(&f), run - 1);
                    cr_assert(n_items == 0 || !flat_done(&f, run));
                    (void)flat_post(&f, run, r, false);
                }
                cr_assert_eq(flat_posted_by_all(&f), run);
                cr_assert_eq(flat_any(&f, run), n_items > 0);
                n = drain(&f, run, 0, false, seen); /* a rank's own share, and then all */
                cr_assert_eq(n, f.groups[0].n);
                n += drain(&f, run, n_groups - 1, true, seen);
                cr_assert_eq(n, n_items);
                cr_assert_not(flat_any(&f, run));
                cr_assert(flat_done(&f, run));
                for (size_t i = 0; i < n_items; i++) {
                    cr_assert_eq(seen[i], (int)run);
                }
            }
            flat_fini(&f);
        }
    }
    cr_assert_eq(mem_live(), 0);
}

Test(flat, what_is_kept_is_nobody_elses_until_it_is_let)
{
    struct flat f;
    size_t item;
    int group, seen[2] = {0};

    cr_assert_eq(flat_init(&f, 2, 2, false), ST_OK);
    for (uint64_t run = 1; run <= 1000; run++) {
        cr_assert(flat_post(&f, run, 0, true));
        cr_assert(flat_post(&f, run, 1, run % 2 == 0) == (run % 2 == 0));
        cr_assert_eq(drain(&f, run, 1, true, seen), run % 2 == 0 ? 0 : 1);
        cr_assert_not(flat_any(&f, run));
        if (run % 3 == 0) { /* runs it itself */
            cr_assert(flat_take_kept(&f, 0));
            cr_assert_not(flat_take_kept(&f, 0));
            cr_assert(flat_finish(&f, run, 0, 0));
        } else { /* goes away: the other one takes it */
            flat_let(&f, 0);
            cr_assert_not(flat_take_kept(&f, 0));
            cr_assert(flat_any(&f, run));
            cr_assert(flat_take(&f, run, 1, true, &item, &group) && item == 0 && group == 0);
            flat_keep(&f, run, 0); /* comes back too late */
            cr_assert_not(flat_take_kept(&f, 0));
            cr_assert(flat_finish(&f, run, 0, 0));
        }
        cr_assert_eq(flat_done(&f, run), run % 2 != 0);
        flat_let(&f, 1);
        flat_keep(&f, run, 1); /* comes back in time, if it has had anything */
        cr_assert_not(flat_take(&f, run, 0, true, &item, &group));
        if (flat_take_kept(&f, 1)) {
            cr_assert_eq(run % 2, 0);
            cr_assert(flat_finish(&f, run, 1, 0));
        }
        cr_assert(flat_done(&f, run));
    }
    flat_fini(&f);
}

Test(flat, several_items_are_not_kept)
{
    struct flat f;
    size_t item;
    int group;

    cr_assert_eq(flat_init(&f, 2, 3, false), ST_OK);
    cr_assert_not(flat_post(&f, 1, 0, true)); /* two */
    cr_assert(flat_post(&f, 1, 1, true));
    flat_keep(&f, 1, 0);
    cr_assert_not(flat_take_kept(&f, 0));
    cr_assert(flat_take(&f, 1, 1, true, &item, &group) && group == 0);
    cr_assert_not(flat_finish(&f, 1, 0, 5)); /* one is left */
    cr_assert(flat_take(&f, 1, 1, true, &item, &group) && group == 0);
    cr_assert(flat_finish(&f, 1, 0, 7));
    cr_assert_not(flat_done(&f, 1));
    cr_assert(flat_take_kept(&f, 1) && flat_finish(&f, 1, 1, 6) && flat_done(&f, 1));
    cr_assert_eq(flat_end_ns(&f), 7);
    flat_fini(&f);
}
