#include "chaos.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "grid.h"

/* Nothing but the dependencies orders two operations. */
struct chaos {
    const struct program *p;
    int *waits;    /* [n_instances] */
    size_t *ready; /* instances that may run, as tree, chunk, op */
    size_t n_ready;
    struct rng rng;
    uint64_t draws;
};

static void release(struct chaos *c, size_t tree, size_t chunk, size_t op)
{
    size_t id = program_instance(c->p, tree, chunk, op);

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

size_t chaos_run(const struct program *p, const uintptr_t *bases, uint64_t seed)
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
