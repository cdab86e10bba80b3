#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "grid.h"

/*
 * A test engine: runs whatever is ready in a random order drawn from `seed`. Ranks post at random
 * times in between. Nothing but the dependencies orders two operations.
 */
struct chaos {
    const struct program *p;
    int *waits;    /* [n_instances] */
    size_t *ready; /* instances that may run, as tree, chunk, op */
    size_t n_ready;
    struct rng rng;
    uint64_t draws;
};

static size_t instance(const struct program *p, size_t tree, size_t chunk, size_t op)
{
    return p->trees[tree].first_instance + chunk * p->trees[tree].n_ops + op;
}

static void release(struct chaos *c, size_t tree, size_t chunk, size_t op)
{
    size_t id = instance(c->p, tree, chunk, op);

    cr_assert_gt(c->waits[id], 0);
    if (--c->waits[id] == 0) {
        c->ready[c->n_ready++] = tree;
        c->ready[c->n_ready++] = chunk;
        c->ready[c->n_ready++] = op;
    }
}

static void post(struct chaos *c, int node)
{
    for (size_t t = 0; t < c->p->n_trees; t++) {
        for (size_t i = 0; i < c->p->trees[t].n_ops; i++) {
            const struct program_op *op = &c->p->ops[c->p->trees[t].op + i];
            for (int k = 0; k < op->n_posts; k++) {
                for (size_t chunk = 0;
                     chunk < c->p->trees[t].n_chunks && c->p->ints[op->posts + (size_t)k] == node;
                     chunk++) {
                    release(c, t, chunk, i);
                }
            }
        }
    }
}

static void run_one(struct chaos *c, const uintptr_t *bases)
{
    size_t at = 3 * (size_t)rng_below(&c->rng, c->draws++, c->n_ready / 3);
    size_t tree = c->ready[at], chunk = c->ready[at + 1], op = c->ready[at + 2];
    const struct program_op *o = &c->p->ops[c->p->trees[tree].op + op];

    c->n_ready -= 3;
    memmove(c->ready + at, c->ready + c->n_ready, 3 * sizeof *c->ready);
    program_run(c->p, bases, tree, chunk, op);
    for (int k = 0; k < o->n_next; k++) {
        release(c, tree, chunk, (size_t)c->p->ints[o->next + (size_t)k]);
    }
}

/* Returns how many operations ran. */
static size_t chaos_run(const struct program *p, const uintptr_t *bases, uint64_t seed)
{
    struct chaos c = {.p = p, .rng = rng_make(seed, RNG_TEST, 0)};
    int *left = mem_alloc((size_t)p->n_nodes, sizeof *left), n_left = p->n_ranks;
    size_t ran = 0;

    c.waits = mem_alloc(p->n_instances, sizeof *c.waits);
    c.ready = mem_alloc(3 * p->n_instances, sizeof *c.ready);
    cr_assert(left && c.waits && c.ready);
    for (size_t t = 0; t < p->n_trees; t++) {
        for (size_t k = 0; k < p->trees[t].n_chunks * p->trees[t].n_ops; k++) {
            c.waits[p->trees[t].first_instance + k] =
                p->ops[p->trees[t].op + k % p->trees[t].n_ops].n_deps;
        }
    }
    for (int v = 0; v < p->n_ranks; v++) {
        left[v] = v;
    }
    while (n_left > 0 || c.n_ready > 0) {
        if (n_left > 0 && (c.n_ready == 0 || rng_below(&c.rng, c.draws++, 4) == 0)) {
            size_t at = (size_t)rng_below(&c.rng, c.draws++, (uint64_t)n_left);
            post(&c, left[at]);
            left[at] = left[--n_left];
            for (int v = p->n_ranks; n_left == 0 && v < p->n_nodes; v++) {
                post(&c, v);
            }
        } else {
            run_one(&c, bases);
            ran++;
        }
    }
    mem_free(left);
    mem_free(c.waits);
    mem_free(c.ready);
    return ran;
}

/* --- The grid --- */

static void try_program(const struct plan *plan, const struct program_spec *spec, uint64_t seed)
{
    struct program *p = grid_program(plan, spec);
    struct grid_memory m;

    cr_assert_eq(program_check(p, plan), ST_OK);
    grid_memory_init(&m, p);
    cr_assert_eq(chaos_run(p, m.bases, seed), p->n_instances);
    cr_assert_eq(grid_memory_wrong(&m, plan->root), 0,
                 "%s %s %s P=%d n=%zu chunk=%zu in_place=%d fuse=%d root=%d seed=%zu",
                 plan->backend, collective_name(plan->collective), redop_name(spec->redop),
                 plan->n_ranks, spec->n, spec->chunk_bytes, spec->in_place, spec->fuse, plan->root,
                 (size_t)seed);
    grid_memory_fini(&m);
    program_destroy(p);
}

static void try_sizes(const struct plan *plan, enum redop redop)
{
    size_t n_ranks = (size_t)plan->n_ranks;
    size_t sizes[] = {0, 1, n_ranks - 1, n_ranks, n_ranks + 1, 127, 128, 129, 1000, 8191};
    size_t chunks[] = {4, 4096, 1 << 20};
    uint64_t seed = 1;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t k = 0; k < 3; k++) {
            for (int mode = 0; mode < 4; mode++) {
                struct program_spec spec = {DTYPE_F32,       redop,    mode & 1,
                                            (mode & 2) != 0, sizes[i], chunks[k]};
                if (chunks[k] == 4 && sizes[i] > 129) {
                    spec.chunk_bytes = 40; /* the operations are many enough */
                }
                try_program(plan, &spec, seed++);
            }
        }
    }
}

static void try_backend(const char *backend, int n_ranks)
{
    struct topo *t = grid_mesh(n_ranks);

    for (int c = 0; c < GRID_N_COLLECTIVES; c++) {
        bool rooted = c == COLL_BROADCAST || c == COLL_REDUCE;
        for (int root = 0; root < (rooted ? n_ranks : 1); root += 3) {
            struct plan *plan = grid_plan(backend, t, (enum collective)c, root);
            try_sizes(plan, REDOP_SUM);
            plan_destroy(plan);
        }
    }
    topo_destroy(t);
}

Test(program, every_backend_collective_rank_count_size_and_chunk_is_exact_in_random_orders)
{
    for (size_t b = 0; planner_at(b) != NULL; b++) {
        for (int k = 0; k < GRID_N_RANKS; k++) {
            try_backend(planner_at(b)->name, grid_ranks[k]);
        }
    }
    cr_assert_eq(mem_live(), 0);
}
