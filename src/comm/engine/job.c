#include "comm/engine/job.h"

#include <assert.h>

#include "base/log.h"
#include "base/mem.h"

enum {
    OP_BITS = 14,
    TREE_BITS = 16,
    CHUNK_BITS = READY_ITEM_BITS - OP_BITS - TREE_BITS
};

uint64_t job_pack(struct job_item i)
{
    return (uint64_t)i.chunk << (OP_BITS + TREE_BITS) | (uint64_t)i.tree << OP_BITS | i.op;
}

struct job_item job_unpack(uint64_t w)
{
    return (struct job_item){.tree = (w >> OP_BITS) & ((1u << TREE_BITS) - 1),
                             .chunk = w >> (OP_BITS + TREE_BITS),
                             .op = w & ((1u << OP_BITS) - 1)};
}

static enum status check_limits(const struct program *p)
{
    bool fits = p->n_trees <= (size_t)1 << TREE_BITS;

    for (size_t t = 0; t < p->n_trees; t++) {
        fits = fits && p->trees[t].n_ops <= (size_t)1 << OP_BITS &&
               p->trees[t].n_chunks <= (size_t)1 << CHUNK_BITS;
    }
    if (!fits) {
        return log_fail(ST_UNSUPPORTED,
                        "%zu trees or their chunks are too many for the host engine, %s, choose "
                        "larger chunks or another backend",
                        p->n_trees, collective_name(p->collective));
    }
    return ST_OK;
}

/* Call `f` for every post that an operation waits for. */
static void each_post(struct job *j, void (*f)(struct job *, int node, struct job_item))
{
    for (size_t t = 0; t < j->p->n_trees; t++) {
        for (size_t i = 0; i < j->p->trees[t].n_ops; i++) {
            const struct program_op *op = &j->p->ops[j->p->trees[t].op + i];
            for (int k = 0; k < op->n_posts; k++) {
                f(j, j->p->ints[op->posts + (size_t)k], (struct job_item){t, 0, i});
            }
        }
    }
}

static void count_start(struct job *j, int node, struct job_item i)
{
    (void)i;
    j->first_start[node + 1]++;
}

static void store_start(struct job *j, int node, struct job_item i)
{
    j->starts[j->first_start[node]++] = i;
}

static enum status index_starts(struct job *j)
{
    size_t n = (size_t)j->p->n_nodes;

    each_post(j, count_start);
    for (size_t v = 0; v < n; v++) {
        j->first_start[v + 1] += j->first_start[v];
    }
    j->starts = mem_alloc(j->first_start[n], sizeof *j->starts);
    if (j->starts == NULL) {
        return ST_NOMEM;
    }
    each_post(j, store_start);
    for (size_t v = n; v > 0; v--) { /* each entry has moved to the next one's place */
        j->first_start[v] = j->first_start[v - 1];
    }
    j->first_start[0] = 0;
    return ST_OK;
}

static enum status bind(struct job *j, const struct engine_job *args)
{
    size_t n = (size_t)j->p->n_nodes, elem = dtype_bytes(j->p->spec.dtype);
    struct program_buffers *buffers = mem_alloc(n, sizeof *buffers);
    enum status st = buffers == NULL ? ST_NOMEM : ST_OK;

    for (size_t v = 0; st == ST_OK && v < n; v++) {
        if (v < (size_t)j->p->n_ranks) {
            buffers[v] = args->buffers[v];
        }
        if (j->p->has_tmp[v]) {
            j->tmp[v] = mem_alloc(j->p->spec.n, elem);
            st = j->tmp[v] == NULL ? ST_NOMEM : ST_OK;
        }
        buffers[v].tmp = j->tmp[v];
    }
    if (st == ST_OK) {
        program_bind(j->p, buffers, j->bases);
    }
    mem_free(buffers);
    return st;
}

static void reset_waits(struct job *j)
{
    for (size_t t = 0; t < j->p->n_trees; t++) {
        const struct program_tree *tree = &j->p->trees[t];
        for (size_t k = 0; k < tree->n_chunks * tree->n_ops; k++) {
            atomic_init(&j->waits[tree->first_instance + k],
                        j->p->ops[tree->op + k % tree->n_ops].n_deps);
        }
    }
}

enum status job_init(struct job *j, const struct engine_job *args, bool whole)
{
    const struct program *p = args->program;
    size_t n_nodes = (size_t)p->n_nodes;

    TRY(check_limits(p));
    j->p = p;
    j->what = args->what;
    j->label = args->label;
    j->whole = whole;
    j->has_relays = p->n_nodes > p->n_ranks;
    atomic_init(&j->arrived, 0);
    j->bases = mem_alloc(p->n_refs, sizeof *j->bases);
    j->tmp = mem_alloc(n_nodes, sizeof *j->tmp);
    j->waits = mem_alloc(p->n_instances, sizeof *j->waits);
    j->ranks = mem_alloc((size_t)p->n_ranks, sizeof *j->ranks);
    j->first_start = mem_alloc(n_nodes + 1, sizeof *j->first_start);
    if (j->bases == NULL || j->tmp == NULL || j->waits == NULL || j->ranks == NULL ||
        j->first_start == NULL) {
        return ST_NOMEM;
    }
    TRY(ready_init(&j->ready, p->n_instances));
    TRY(index_starts(j));
    TRY(bind(j, args));
    reset_waits(j);
    return ST_OK;
}

void job_fini(struct job *j)
{
    for (int v = 0; j->tmp != NULL && v < j->p->n_nodes; v++) {
        mem_free(j->tmp[v]);
    }
    ready_fini(&j->ready);
    mem_free(j->bases);
    mem_free(j->tmp);
    mem_free(j->waits);
    mem_free(j->ranks);
    mem_free(j->starts);
    mem_free(j->first_start);
}

bool job_release(struct job *j, struct job_item i)
{
    const struct program_tree *tree = &j->p->trees[i.tree];
    atomic_int *waits = &j->waits[tree->first_instance + i.chunk * tree->n_ops + i.op];

    if (atomic_fetch_sub_explicit(waits, 1, memory_order_acq_rel) != 1) {
        return false;
    }
    /* Ready for the next run: nobody counts down again before this instance has run. */
    atomic_store_explicit(waits, j->p->ops[tree->op + i.op].n_deps, memory_order_relaxed);
    ready_push(&j->ready, job_pack(i));
    return true;
}

size_t job_start(struct job *j, int node)
{
    size_t n_ready = 0;

    for (size_t k = j->first_start[node]; k < j->first_start[node + 1]; k++) {
        struct job_item i = j->starts[k];
        for (i.chunk = 0; i.chunk < j->p->trees[i.tree].n_chunks; i.chunk++) {
            n_ready += job_release(j, i);
        }
    }
    return n_ready;
}
