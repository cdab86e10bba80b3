/*
 * What the CUDA engine puts on streams gives the right sums in every order that streams and events
 * allow, for all backends; and no wait can be left out.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "engine_world.h"

static const int all_ranks[] = {1, 2, 3, 4, 5, 7, 8, 11, 16};
#define N_ALL_RANKS (sizeof all_ranks / sizeof *all_ranks)

static size_t plays; /* for the report */

static void play(const struct setup *s, int n_plays)
{
    struct world w;

    world_init(&w, s);
    world_issue(&w);
    cr_assert_eq(recorder_faults(w.recorder), 0, "%s P=%d", s->backend, s->n_ranks);
    for (int k = 0; k < n_plays; k++) {
        recorder_play(w.recorder, (uint64_t)k, k % 2 == 1);
        cr_assert(!world_went_wrong(&w), "%s %s P=%d chunk=%zu peers=%d graphs=%d, order %d",
                  s->backend, collective_name(s->collective), s->n_ranks, s->chunk_bytes, s->peers,
                  s->graphs, k);
        plays++;
    }
    world_fini(&w);
}

static const size_t chunks[] = {4, 40, 1 << 20};

/* Every backend, P and chunk size, on all kinds of machines; thousands of orders. */
static void play_backend(const char *backend)
{
    for (size_t p = 0; p < N_ALL_RANKS; p++) {
        for (size_t c = 0; c < 3; c++) {
            for (int kind = 0; kind < 4; kind++) {
                struct setup s = world_basic(backend, all_ranks[p], chunks[c]);
                s.graphs = kind == 1;
                s.peers = kind != 2;
                s.ranks_per_device = kind == 3 ? 3 : 1;
                s.mean = kind == 3;
                play(&s, all_ranks[p] > 8 ? 4 : 10);
            }
        }
    }
}

#define PLAY(name, backend)                                                                        \
    Test(engine_cuda, all_orders_of_##name)                                                        \
    {                                                                                              \
        play_backend(backend);                                                                     \
        cr_assert_geq(plays, 900);                                                                 \
    }

PLAY(central, "central")
PLAY(central_host, "central-host")
PLAY(onehop, "onehop")
PLAY(mst, "mst")
PLAY(be, "be")
PLAY(ring, "ring")
PLAY(lp, "lp")
PLAY(treepack, "treepack")

Test(engine_cuda, every_backend_is_played)
{
    static const char *const played[] = {"central", "central-host", "onehop", "mst",
                                         "be",      "ring",         "lp",     "treepack"};

    for (size_t i = 0; planner_at(i) != NULL; i++) {
        bool found = false;
        for (size_t k = 0; k < sizeof played / sizeof *played; k++) {
            found = found || strcmp(played[k], planner_at(i)->name) == 0;
        }
        cr_assert(found, "%s is not played", planner_at(i)->name);
    }
}

Test(engine_cuda, all_collectives_out_of_place)
{
    for (size_t b = 0; planner_at(b) != NULL; b++) {
        for (int c = COLL_BROADCAST; c <= COLL_ALLGATHER; c++) {
            for (int p = 1; p <= 5; p++) {
                struct setup s = world_basic(planner_at(b)->name, p, 16);
                s.collective = (enum collective)c;
                s.in_place = false;
                s.peers = p % 2 == 0;
                s.root = c == COLL_BROADCAST || c == COLL_REDUCE ? p / 2 : -1;
                play(&s, 6);
            }
        }
    }
}

/* Buckets share streams and are under way together. */
Test(engine_cuda, several_jobs)
{
    for (size_t b = 0; planner_at(b) != NULL; b++) {
        for (int graphs = 0; graphs < 2; graphs++) {
            struct setup s = world_basic(planner_at(b)->name, 4, 16);
            s.graphs = graphs != 0;
            s.n_jobs = 3;
            s.n[1] = 64;
            s.n[2] = 3;
            play(&s, 12);
        }
    }
}

Test(engine_cuda, odd_sizes)
{
    static const size_t sizes[] = {0, 1, 3, 4, 5, 257};

    for (size_t b = 0; planner_at(b) != NULL; b++) {
        for (size_t k = 0; k < 6; k++) {
            struct setup s = world_basic(planner_at(b)->name, 4, 60);
            s.n[0] = sizes[k];
            play(&s, 4);
        }
    }
}

/* The later a bucket, the sooner the next forward pass needs it. */
Test(engine_cuda, later_jobs_have_more_urgent_streams)
{
    struct setup s = world_basic("ring", 4, 16);
    struct world w;
    size_t n_hops;

    s.n_jobs = MAX_JOBS;
    s.n[1] = s.n[2] = 20;
    world_init(&w, &s);
    n_hops = recorder_n_streams(w.recorder, 0) - 4 - MAX_JOBS; /* the ranks', the jobs' first */
    cr_assert_geq(n_hops, 4);
    world_fini(&w);
    s.last_first = true;
    world_init(&w, &s);
    cr_assert_eq(recorder_n_streams(w.recorder, 0), 4);
    for (int urgency = 1; urgency <= DEVICE_URGENCIES; urgency++) {
        cr_assert_eq(recorder_n_streams(w.recorder, urgency), n_hops + 1, "%d", urgency);
    }
    world_issue(&w);
    recorder_play(w.recorder, 1, true);
    cr_assert(!world_went_wrong(&w));
    world_fini(&w);
}

/* --- No wait too many, none too few --- */

/* Every `step`-th wait. */
static void mutate(const struct setup *s, size_t step, size_t *n_waits)
{
    struct world w;
    size_t n;

    world_init(&w, s);
    world_issue(&w);
    n = recorder_n_waits(w.recorder);
    for (size_t k = n % step; k < n; k += step) {
        cr_assert(recorder_play_without(w.recorder, k, world_went_wrong, &w),
                  "%s P=%d chunk=%zu peers=%d: nobody misses wait %zu of %zu", s->backend,
                  s->n_ranks, s->chunk_bytes, s->peers, k, n);
    }
    *n_waits += n / step;
    recorder_play(w.recorder, 1, false);
    cr_assert(!world_went_wrong(&w), "all are back");
    world_fini(&w);
}

/* Issued directly: the end of a graph waits for all of it, whatever joins there are in it. */
Test(engine_cuda, any_wait_that_is_dropped_is_missed)
{
    size_t n_waits = 0;

    for (size_t b = 0; planner_at(b) != NULL; b++) {
        /* From 2: the sum of one rank's values in place is there all the time. */
        for (size_t p = 1; p < N_ALL_RANKS; p++) {
            for (size_t c = 0; c < 3; c++) {
                struct setup s = world_basic(planner_at(b)->name, all_ranks[p], chunks[c]);
                const size_t step = all_ranks[p] <= 8 ? 1 : 101; /* all of them take minutes */
                s.n[0] = 19;
                mutate(&s, step, &n_waits);
                s.peers = false;
                mutate(&s, step, &n_waits);
            }
        }
    }
    cr_assert_gt(n_waits, 10000, "%zu", n_waits);
}

Test(engine_cuda, any_wait_between_jobs_is_missed)
{
    size_t n_waits = 0;

    for (size_t b = 0; planner_at(b) != NULL; b++) {
        struct setup s = world_basic(planner_at(b)->name, 4, 16);
        s.n_jobs = 2;
        s.n[0] = 9;
        s.n[1] = 20;
        mutate(&s, 1, &n_waits);
    }
    cr_assert_gt(n_waits, 500);
}
