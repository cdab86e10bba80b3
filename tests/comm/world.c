#include "world.h"

#include <pthread.h>

#include "base/mem.h"

struct config_comm world_config(const char *backend)
{
    return (struct config_comm){.backend = (char *)(uintptr_t)backend,
                                .overlap = true,
                                .buckets = (char *)"size",
                                .bucket_bytes = 1 << 20,
                                .first_bucket_bytes = 1 << 18,
                                .chunks = (char *)"",
                                .timeout_s = 60,
                                .topology = (char *)"",
                                .plan = (char *)"",
                                .treepack = (char *)"exact",
                                .wire = (char *)"fp32",
                                .fabric = (char *)"memory",
                                .fabric_scale = 1,
                                .workers = -1,
                                .order = (char *)"fifo",
                                .sync = (char *)"allreduce"};
}

void world_init(struct world *w, const char *backend, int n_ranks)
{
    size_t sizes[N_BUCKETS] = {40000, 1, 0, 17, 2011};

    w->cfg = world_config(backend);
    w->n_ranks = n_ranks;
    w->topo = grid_mesh(n_ranks);
    w->n = 0;
    for (size_t b = 0; b < N_BUCKETS; b++) {
        w->buckets[b] = (struct comm_bucket){w->n, sizes[b], "conv1"};
        w->n += sizes[b];
    }
    for (int r = 0; r < n_ranks; r++) {
        w->arenas[r] = mem_alloc(w->n, sizeof(float));
        cr_assert_not_null(w->arenas[r]);
    }
}

struct comm_args world_args(struct world *w)
{
    return (struct comm_args){.cfg = &w->cfg,
                              .topo = w->topo,
                              .n_ranks = w->n_ranks,
                              .arenas = w->arenas,
                              .buckets = w->buckets,
                              .n_buckets = N_BUCKETS,
                              .timed = true};
}

void world_start(struct world *w)
{
    struct comm_args args = world_args(w);

    cr_assert_eq(comm_create(&args, &w->comm), ST_OK);
}

void world_fini(struct world *w)
{
    comm_destroy(w->comm);
    for (int r = 0; r < w->n_ranks; r++) {
        mem_free(w->arenas[r]);
    }
    topo_destroy(w->topo);
}

static void *rank_main(void *arg)
{
    struct world_rank *r = arg;

    r->st = r->body(r);
    return NULL;
}

void world_run(struct world *w, struct world_rank *ranks, int steps,
               enum status (*body)(struct world_rank *))
{
    pthread_t threads[16];

    for (int r = 0; r < w->n_ranks; r++) {
        ranks[r] = (struct world_rank){.w = w, .rank = r, .steps = steps, .body = body};
        cr_assert_eq(pthread_create(&threads[r], NULL, rank_main, &ranks[r]), 0);
    }
    for (int r = 0; r < w->n_ranks; r++) {
        cr_assert_eq(pthread_join(threads[r], NULL), 0);
    }
}

float world_value(int step, int rank, size_t i)
{
    return grid_value(rank, i + (size_t)step);
}

size_t world_wrong(const struct world *w, int step, int rank, const struct comm_bucket *b)
{
    size_t wrong = 0;

    for (size_t i = b->offset; i < b->offset + b->n; i++) {
        float sum = 0;
        for (int r = 0; r < w->n_ranks; r++) {
            sum += world_value(step, r, i);
        }
        wrong += w->arenas[rank][i] != sum;
    }
    return wrong;
}

enum status world_train(struct world_rank *r)
{
    struct world *w = r->w;

    for (int step = 0; step < r->steps; step++) {
        for (size_t k = 0; k < N_BUCKETS; k++) {
            const struct comm_bucket *b = &w->buckets[(k + (size_t)r->rank) % N_BUCKETS];
            for (size_t i = b->offset; i < b->offset + b->n; i++) {
                w->arenas[r->rank][i] = world_value(step, r->rank, i);
            }
            TRY(comm_post(w->comm, r->rank, (size_t)(b - w->buckets)));
        }
        for (size_t k = 0; k < N_BUCKETS; k++) {
            size_t b = (k + 2 * (size_t)r->rank) % N_BUCKETS;
            TRY(comm_wait(w->comm, r->rank, b));
            cr_assert(comm_done(w->comm, r->rank, b));
            r->wrong += world_wrong(w, step, r->rank, &w->buckets[b]);
        }
    }
    return ST_OK;
}
