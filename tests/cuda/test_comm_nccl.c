/* A communicator that leaves its buckets to NCCL, with threads for ranks and a double for the
 * library: the sums, whatever order the ranks post in; what it says, and what it refuses. */
#include "nccl_world.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

static float value(int step, int rank, size_t i)
{
    return (float)((size_t)step * 7 + (size_t)(rank + 1) * 3 + i * 5 % 13);
}

/* --- ranks as threads --- */

struct rank {
    struct nccl_world *w;
    int rank;
    size_t wrong;
    enum status st;
};

enum {
    N_STEPS = 40
};

/* In an order of this rank's own. */
static enum status post_all(const struct rank *r, int step)
{
    const struct rng random = rng_make(1, RNG_TEST, (uint64_t)(r->rank * N_STEPS + step));
    size_t first = rng_u32(&random, 0) % N_BUCKETS, by = rng_u32(&random, 1) % 2 == 0 ? 1 : 3;

    for (size_t k = 0; k < N_BUCKETS; k++) {
        TRY(comm_post(r->w->comm, r->rank, (first + k * by) % N_BUCKETS));
    }
    return ST_OK;
}

static float expected(const struct nccl_world *w, int step, int rank, size_t i)
{
    float sum = 0;

    if (w->args.kind == COMM_BROADCAST) {
        return value(step, w->args.root, i);
    }
    if (w->args.kind == COMM_REDUCE && rank != w->args.root) {
        return value(step, rank, i);
    }
    for (int r = 0; r < w->n_ranks; r++) {
        sum += value(step, r, i);
    }
    return sum;
}

static enum status all_steps(struct rank *r)
{
    struct nccl_world *w = r->w;

    for (int step = 0; step < N_STEPS; step++) {
        for (size_t i = 0; i < w->n; i++) {
            w->arenas[r->rank][i] = value(step, r->rank, i);
        }
        TRY(post_all(r, step));
        for (size_t b = 0; b < N_BUCKETS; b++) {
            TRY(comm_wait(w->comm, r->rank, b));
            cr_assert(comm_done(w->comm, r->rank, b));
        }
        for (size_t i = 0; i < w->n; i++) {
            r->wrong += w->arenas[r->rank][i] != expected(w, step, r->rank, i);
        }
    }
    return ST_OK;
}

static void *rank_main(void *rank)
{
    struct rank *r = rank;

    r->st = all_steps(r);
    return NULL;
}

static void run_ranks(struct nccl_world *w, struct rank *ranks)
{
    pthread_t threads[MAX_RANKS];

    for (int r = 0; r < w->n_ranks; r++) {
        ranks[r] = (struct rank){.w = w, .rank = r};
        cr_assert_eq(pthread_create(&threads[r], NULL, rank_main, &ranks[r]), 0);
    }
    for (int r = 0; r < w->n_ranks; r++) {
        (void)pthread_join(threads[r], NULL);
    }
}

Test(comm_nccl, the_sums_whatever_the_order)
{
    for (int kind = COMM_ALLREDUCE; kind <= COMM_BROADCAST; kind++) {
        for (int p = 1; p <= MAX_RANKS; p++) {
            struct nccl_world w;
            struct rank ranks[MAX_RANKS];
            nccl_world_init(&w, p);
            w.args.kind = (enum comm_kind)kind;
            w.args.root = kind == COMM_ALLREDUCE ? 0 : p - 1;
            cr_assert_eq(comm_create(&w.args, &w.comm), ST_OK);
            run_ranks(&w, ranks);
            for (int r = 0; r < p; r++) {
                cr_assert_eq(ranks[r].st, ST_OK);
                cr_assert_eq(ranks[r].wrong, 0, "kind %d P=%d rank %d", kind, p, r);
            }
            cr_assert_eq(comm_check(w.comm), ST_OK);
            nccl_world_fini(&w);
        }
    }
}

/* --- what it says --- */

static void expect_words(const char *text, const char *const *words)
{
    for (; *words != NULL; words++) {
        cr_assert(strstr(text, *words) != NULL, "no '%s' in: %s", *words, text);
    }
}

Test(comm_nccl, says_what_runs)
{
    struct nccl_world w;
    char text[4096] = "";
    FILE *out = fmemopen(text, sizeof text, "w");

    nccl_world_init(&w, 2);
    cr_assert_eq(comm_create(&w.args, &w.comm), ST_OK);
    comm_describe(w.comm, out);
    fclose(out);
    expect_words(text, (const char *const[]){"backend    nccl, allreduce over 2 devices",
                                             "4 of 0 B to 3.9 KiB, 4.2 KiB in all\n",
                                             "engine     NCCL 2.28.9", NULL});
    cr_assert_null(strstr(text, "tree"), "%s", text);
    cr_assert_str_eq(comm_plan(w.comm, 0)->backend, "nccl");
    nccl_world_fini(&w);
}

/* What the library does with it can only be seen on GPUs. */
Test(comm_nccl, asks_for_a_log)
{
    struct nccl_world w;

    nccl_world_init(&w, 2);
    unsetenv("NCCL_DEBUG");
    unsetenv("NCCL_DEBUG_FILE");
    cr_assert_eq(comm_create(&w.args, &w.comm), ST_OK);
    cr_assert_null(getenv("NCCL_DEBUG_FILE"));
    comm_destroy(w.comm);
    w.cfg.nccl_log = (char *)"nccl.log";
    cr_assert_eq(comm_create(&w.args, &w.comm), ST_OK);
    cr_assert_str_eq(getenv("NCCL_DEBUG_FILE"), "nccl.log");
    cr_assert_str_eq(getenv("NCCL_DEBUG"), "INFO");
    comm_destroy(w.comm);
    setenv("NCCL_DEBUG", "WARN", 1);
    w.cfg.nccl_log = (char *)"another.log";
    cr_assert_eq(comm_create(&w.args, &w.comm), ST_OK);
    cr_assert_str_eq(getenv("NCCL_DEBUG"), "WARN", "a user's own settings come first");
    cr_assert_str_eq(getenv("NCCL_DEBUG_FILE"), "nccl.log");
    nccl_world_fini(&w);
}

static void expect_refusal(struct nccl_world *w, enum status want)
{
    cr_assert_eq(comm_create(&w->args, &w->comm), want);
    cr_assert_null(w->comm);
    nccl_world_fini(w);
}

Test(comm_nccl, ranks_that_share_a_device, .init = cr_redirect_stderr)
{
    struct nccl_world w;

    nccl_world_init(&w, 3);
    w.places[2].device = 0;
    expect_refusal(&w, ST_INPUT);
    MESSAGE("ranks 0 and 2 are both on cpu:0", "use fewer ranks or another backend");
}

Test(comm_nccl, an_order_by_priority, .init = cr_redirect_stderr)
{
    struct nccl_world w;

    nccl_world_init(&w, 2);
    w.cfg.order = (char *)"priority";
    expect_refusal(&w, ST_INPUT);
    MESSAGE("order = priority cannot go with backend = nccl", "use order = fifo");
}

Test(comm_nccl, memory_of_the_host, .init = cr_redirect_stderr)
{
    struct nccl_world w;

    nccl_world_init(&w, 2);
    w.args.places = NULL;
    expect_refusal(&w, ST_UNSUPPORTED);
    MESSAGE("backend = nccl");
}

Test(comm_nccl, no_library, .init = cr_redirect_stderr)
{
    struct nccl_world w;

    nccl_world_init(&w, 2);
    w.cfg.nccl = (char *)"libno-such-nccl.so";
    expect_refusal(&w, ST_UNSUPPORTED);
    MESSAGE("the library is missing", "libno-such-nccl.so");
}

Test(comm_nccl, no_communicators, .init = cr_redirect_stderr)
{
    struct nccl_world w;

    nccl_world_init(&w, 2);
    setenv("ESPALIER_NCCL_DOUBLE", "init", 1);
    expect_refusal(&w, ST_UNSUPPORTED);
    MESSAGE("ncclCommInitAll failed", "said by the double");
}
