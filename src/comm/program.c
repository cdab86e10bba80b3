#include "comm/program.h"

#include <assert.h>

#include "base/mem.h"
#include "comm/lower.h"
#include "comm/share.h"

enum {
    MIN_CHUNK = 128 << 10,   /* below, the cost of starting an operation shows */
    STREAM_BYTES = 32 << 20, /* of all ranks' results: more than the last cache holds */
    MAX_CHUNK = 256 << 10    /* two of them stay in a core's own cache */
};

/*
 * Elements in a chunk: as asked, as planned, or enough chunks to share out among threads. The size
 * asked for is the mean over the trees: a tree with a larger share has larger chunks, so that trees
 * that take turns on a link advance alike.
 */
static size_t chunk_of(const struct program *p, const struct plan *plan, struct share share,
                       size_t n)
{
    size_t elem = dtype_bytes(p->spec.dtype), bytes = n * elem / 4;

    if (n == 0 || !plan->pipelined) {
        return n;
    }
    bytes = bytes < MIN_CHUNK ? MIN_CHUNK : bytes > MAX_CHUNK ? MAX_CHUNK : bytes;
    bytes = plan->chunk_bytes != 0 ? plan->chunk_bytes : bytes;
    bytes = p->spec.chunk_bytes != 0 ? p->spec.chunk_bytes : bytes;
    if (!share_equal(share, share_make(1, (int64_t)plan->n_trees))) {
        bytes =
            (size_t)((double)bytes * (double)plan->n_trees * (double)share.num / (double)share.den);
    }
    return bytes < elem ? 1 : bytes / elem;
}

static void count_touches(struct program *p, const struct program_tree *t)
{
    for (size_t i = 0; i < t->n_ops; i++) {
        const struct program_op *op = &p->ops[t->op + i];
        for (int k = 0; k < op->n_ranks; k++) {
            p->touches[p->ints[op->ranks + (size_t)k]] += t->n_chunks;
        }
        for (size_t k = op->src; k < op->dst + (size_t)op->n_dst; k++) {
            p->has_tmp[p->refs[k].node] |= p->refs[k].buf == BUF_TMP && t->n_chunks > 0;
        }
    }
}

static enum status fill(struct lower *l, const struct plan *plan, struct program *p)
{
    struct share sum = {0, 1};

    for (size_t i = 0; i < plan->n_trees; i++) {
        struct program_tree *t = &p->trees[i];
        t->offset = share_floor(p->spec.n, sum);
        (void)share_add(sum, plan->trees[i].share, &sum); /* the plan was checked */
        t->n = share_floor(p->spec.n, sum) - t->offset;
        t->chunk = chunk_of(p, plan, plan->trees[i].share, t->n);
        t->n_chunks = t->n == 0 ? 0 : (t->n - 1) / t->chunk + 1;
        TRY(lower_tree(l, &plan->trees[i], t));
        t->first_instance = p->n_instances;
        p->n_instances += t->n_chunks * t->n_ops;
        count_touches(p, t);
    }
    return ST_OK;
}

enum status program_create_sink(const struct plan *plan, const struct program_spec *spec,
                                const struct program_sink *sink, struct program **out)
{
    struct program *p = mem_alloc(1, sizeof *p);
    struct lower l = {0};
    enum status st = ST_NOMEM;

    if (p == NULL) {
        return ST_NOMEM;
    }
    assert(sink->take == NULL || (plan->collective == COLL_ALLREDUCE && spec->in_place &&
                                  spec->dtype == DTYPE_F32 && spec->redop == REDOP_SUM));
    p->spec = *spec;
    p->sink = *sink;
    p->collective = plan->collective;
    p->n_ranks = plan->n_ranks;
    p->n_nodes = plan->n_nodes;
    p->n_trees = plan->n_trees;
    p->whole = !plan->pipelined;
    p->fold = fold_select(spec->dtype, spec->redop);
    p->stream = spec->n > STREAM_BYTES / dtype_bytes(spec->dtype) / (size_t)plan->n_ranks;
    p->trees = mem_alloc(plan->n_trees, sizeof *p->trees);
    p->touches = mem_alloc((size_t)plan->n_ranks, sizeof *p->touches);
    p->has_tmp = mem_alloc((size_t)plan->n_nodes, sizeof *p->has_tmp);
    if (p->trees != NULL && p->touches != NULL && p->has_tmp != NULL) {
        st = lower_init(&l, plan, p);
        st = st == ST_OK ? fill(&l, plan, p) : st;
        lower_fini(&l);
    }
    if (st != ST_OK) {
        program_destroy(p);
        return st;
    }
    *out = p;
    return ST_OK;
}

enum status program_create(const struct plan *plan, const struct program_spec *spec,
                           struct program **out)
{
    return program_create_sink(plan, spec, &(struct program_sink){.take = NULL}, out);
}

void program_destroy(struct program *p)
{
    if (p == NULL) {
        return;
    }
    mem_free(p->trees);
    mem_free(p->ops);
    mem_free(p->refs);
    mem_free(p->ints);
    mem_free(p->touches);
    mem_free(p->has_tmp);
    mem_free(p);
}

size_t program_tree_of(const struct program *p, size_t instance)
{
    size_t low = 0, high = p->n_trees;

    while (high - low > 1) { /* the last tree that begins at or before the instance */
        size_t mid = low + (high - low) / 2;
        if (p->trees[mid].first_instance <= instance) {
            low = mid;
        } else {
            high = mid;
        }
    }
    return low;
}

size_t program_chunk(const struct program *p, size_t tree, size_t chunk, size_t *n)
{
    const struct program_tree *t = &p->trees[tree];
    size_t skip = chunk * t->chunk;

    *n = t->n - skip < t->chunk ? t->n - skip : t->chunk;
    return t->offset + skip;
}
