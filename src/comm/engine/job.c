#include "comm/engine/job.h"

#include <assert.h>

#include "base/log.h"
#include "base/mem.h"

enum {
    WHOLE_BYTES = 32 << 10, /* of all ranks' messages together: less is not handed out */
    QUICK_BYTES = 512 << 10,
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

/*
 * What an operation on a chunk waits for. Over timed links one message of an operation is under way
 * at a time, as in a stream: else the first ones to be ready, which have their whole message at
 * hand, would take the links for all of it before anything else gets through.
 */
static int waits_of(const struct job *j, struct job_item i)
{
    const struct program_op *op = &j->p->ops[j->p->trees[i.tree].op + i.op];

    return op->n_deps + (j->ready_ns != NULL && i.chunk > 0);
}

static void reset_waits(struct job *j)
{
    for (size_t t = 0; t < j->p->n_trees; t++) {
        const struct program_tree *tree = &j->p->trees[t];
        for (size_t k = 0; k < tree->n_chunks * tree->n_ops; k++) {
            atomic_init(&j->waits[tree->first_instance + k],
                        waits_of(j, (struct job_item){t, k / tree->n_ops, k % tree->n_ops}));
        }
    }
}

/* Does every operation wait for all ranks and for nothing else? */
static bool is_flat(const struct program *p)
{
    for (size_t t = 0; t < p->n_trees; t++) {
        if (p->trees[t].n_chunks > 0 &&
            (p->trees[t].n_ops != 1 || p->ops[p->trees[t].op].n_posts != p->n_nodes)) {
            return false;
        }
    }
    return p->n_instances <= INT32_MAX;
}

/* Are all ranks' messages together at most `limit` bytes? */
static bool is_small(const struct program *p, size_t limit)
{
    size_t bytes;

    limit /= (size_t)p->n_ranks;

    return !__builtin_mul_overflow(p->spec.n, dtype_bytes(p->spec.dtype), &bytes) && bytes <= limit;
}

static enum status init_graph(struct job *j)
{
    j->waits = mem_alloc(j->p->n_instances, sizeof *j->waits);
    j->first_start = mem_alloc((size_t)j->p->n_nodes + 1, sizeof *j->first_start);
    if (j->waits == NULL || j->first_start == NULL) {
        return ST_NOMEM;
    }
    TRY(ready_init(&j->ready, j->p->n_instances));
    TRY(index_starts(j));
    reset_waits(j);
    return ST_OK;
}

static enum status init_flat(struct job *j, bool fenced)
{
    TRY(flat_init(&j->flat, j->p->n_ranks, j->p->n_instances, fenced));
    j->shares = mem_alloc((size_t)j->p->n_ranks, sizeof *j->shares);
    if (j->shares == NULL) {
        return ST_NOMEM;
    }
    for (int r = 0; r < j->p->n_ranks; r++) {
        if (j->flat.groups[r].n == 1) {
            struct job_item i = job_flat_item(j, j->flat.groups[r].first);
            j->shares[r].call = program_prepare(j->p, j->bases, i.tree, i.chunk, i.op);
        }
    }
    return ST_OK;
}

enum status job_init(struct job *j, const struct engine_job *args, enum job_choice choice,
                     bool fenced)
{
    const struct program *p = args->program;

    TRY(check_limits(p));
    j->p = p;
    j->kind = choice == JOB_TIMED                             ? JOB_GRAPH
              : is_flat(p)                                    ? JOB_FLAT
              : choice == JOB_ANY && is_small(p, WHOLE_BYTES) ? JOB_WHOLE
                                                              : JOB_GRAPH;
    j->what = args->what;
    j->label = args->label;
    j->quick = is_small(p, QUICK_BYTES);
    j->has_relays = p->n_nodes > p->n_ranks;
    j->bases = mem_alloc(p->n_refs, sizeof *j->bases);
    j->tmp = mem_alloc((size_t)p->n_nodes, sizeof *j->tmp);
    j->ranks = mem_alloc((size_t)p->n_ranks, sizeof *j->ranks);
    if (j->bases == NULL || j->tmp == NULL || j->ranks == NULL) {
        return ST_NOMEM;
    }
    TRY(bind(j, args));
    if (choice == JOB_TIMED) {
        j->ready_ns = mem_alloc(p->n_instances, sizeof *j->ready_ns);
        if (j->ready_ns == NULL) {
            return ST_NOMEM;
        }
    }
    if (j->kind == JOB_FLAT) {
        return init_flat(j, fenced);
    }
    return j->kind == JOB_GRAPH ? init_graph(j) : ST_OK;
}

void job_fini(struct job *j)
{
    for (int v = 0; j->tmp != NULL && v < j->p->n_nodes; v++) {
        mem_free(j->tmp[v]);
    }
    flat_fini(&j->flat);
    mem_free(j->shares);
    ready_fini(&j->ready);
    mem_free(j->bases);
    mem_free(j->tmp);
    mem_free(j->waits);
    mem_free(j->ready_ns);
    mem_free(j->ranks);
    mem_free(j->starts);
    mem_free(j->first_start);
}

struct job_item job_flat_item(const struct job *j, size_t instance)
{
    size_t tree = program_tree_of(j->p, instance);

    return (struct job_item){tree, instance - j->p->trees[tree].first_instance, 0};
}

size_t job_instance(const struct job *j, struct job_item i)
{
    return program_instance(j->p, i.tree, i.chunk, i.op);
}

static void note_time(atomic_llong *latest, long long now_ns)
{
    long long seen = atomic_load_explicit(latest, memory_order_relaxed);

    while (seen < now_ns &&
           !atomic_compare_exchange_weak_explicit(latest, &seen, now_ns, memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
}

bool job_release(struct job *j, struct job_item i, int64_t now_ns)
{
    size_t instance = job_instance(j, i);
    atomic_int *waits = &j->waits[instance];

    if (j->ready_ns != NULL) {
        note_time(&j->ready_ns[instance], now_ns);
    }
    if (atomic_fetch_sub_explicit(waits, 1, memory_order_acq_rel) != 1) {
        return false;
    }
    /* Ready for the next run: nobody counts down again before this instance has run. */
    atomic_store_explicit(waits, waits_of(j, i), memory_order_relaxed);
    ready_push(&j->ready, job_pack(i));
    return true;
}

size_t job_start(struct job *j, int node, int64_t now_ns)
{
    size_t n_ready = 0;
    bool more = true;

    for (size_t chunk = 0; more; chunk++) { /* the trees advance side by side */
        more = false;
        for (size_t k = j->first_start[node]; k < j->first_start[node + 1]; k++) {
            struct job_item i = j->starts[k];
            i.chunk = chunk;
            if (chunk < j->p->trees[i.tree].n_chunks) {
                n_ready += job_release(j, i, now_ns);
                more = true;
            }
        }
    }
    return n_ready;
}
