#include "comm/program.h"
#include "comm/share.h"

enum {
    SINK_BLOCK = 512 /* elements */
};

/* Rank r's block of the message in reduce-scatter and allgather. */
static size_t block(const struct program *p, int rank, size_t *n)
{
    size_t first = share_floor(p->spec.n, share_make(rank, p->n_ranks));

    *n = share_floor(p->spec.n, share_make(rank + 1, p->n_ranks)) - first;
    return first;
}

size_t program_in_range(const struct program *p, int rank, size_t *n)
{
    if (p->collective == COLL_ALLGATHER) {
        return block(p, rank, n);
    }
    *n = p->spec.n;
    return 0;
}

size_t program_out_range(const struct program *p, int rank, size_t *n)
{
    if (p->collective == COLL_REDUCE_SCATTER) {
        return block(p, rank, n);
    }
    *n = p->spec.n;
    return 0;
}

/* The buffer that holds the whole message when in and out are one. */
static const void *whole(const struct program *p, const struct program_buffers *b)
{
    return p->collective == COLL_REDUCE || p->collective == COLL_REDUCE_SCATTER ? b->in : b->out;
}

/* Where element 0 of the message is, or would be, in that buffer. */
static uintptr_t base_of(const struct program *p, const struct program_buffers *b,
                         struct program_ref r)
{
    size_t first = 0, n;
    const void *base = b->tmp;

    if (r.buf != BUF_TMP && p->spec.in_place) {
        base = whole(p, b);
    } else if (r.buf == BUF_IN) {
        base = b->in;
        first = program_in_range(p, r.node, &n);
    } else if (r.buf == BUF_OUT) {
        base = b->out;
        first = program_out_range(p, r.node, &n);
    }
    return (uintptr_t)base - first * dtype_bytes(p->spec.dtype);
}

void program_bind(const struct program *p, const struct program_buffers *buffers, uintptr_t *bases)
{
    for (size_t i = 0; i < p->n_refs; i++) {
        bases[i] = base_of(p, &buffers[p->refs[i].node], p->refs[i]);
    }
}

static bool overlaps(const struct fold_args *a)
{
    for (int k = 0; k < a->n_src; k++) {
        for (int m = 0; m < a->n_dst; m++) {
            if (a->src[k] == a->dst[m]) {
                return true;
            }
        }
    }
    return false;
}

/* Too many parts are added up first, block by block in the nearest cache. */
static void sink_sums(const struct program *p, struct fold_args *a)
{
    _Alignas(64) float sums[SINK_BLOCK];
    const float *parts = sums;
    const size_t first = a->first, n = a->n;

    a->n_dst = 1;
    for (size_t done = 0; done < n; done += a->n) {
        uintptr_t dst;
        a->first = first + done;
        a->n = n - done < SINK_BLOCK ? n - done : SINK_BLOCK;
        dst = (uintptr_t)sums - a->first * sizeof(float);
        a->dst = &dst;
        p->fold(a);
        p->sink.take(p->sink.ctx, a->first, a->n, &parts, 1);
    }
}

static void run_sink(const struct program *p, const struct fold_args *args)
{
    const float *parts[PROGRAM_PARTS];
    struct fold_args a = *args;

    if (a.n_src > PROGRAM_PARTS) {
        sink_sums(p, &a);
        return;
    }
    for (int k = 0; k < a.n_src; k++) {
        parts[k] = (const float *)(a.src[k] + a.first * sizeof(float));
    }
    p->sink.take(p->sink.ctx, a.first, a.n, parts, a.n_src);
}

struct program_call program_prepare(const struct program *p, const uintptr_t *bases, size_t tree,
                                    size_t chunk, size_t op)
{
    const struct program_op *o = &p->ops[p->trees[tree].op + op];
    struct fold_args a = {.src = bases + o->src,
                          .dst = bases + o->dst,
                          .n_src = o->n_src,
                          .n_dst = o->n_dst,
                          .divisor = o->finish ? p->n_ranks : 0};

    a.first = program_chunk(p, tree, chunk, &a.n);
    a.stream = p->stream && o->n_dst > 0 && !overlaps(&a);
    return (struct program_call){.args = a,
                                 .fold = a.n_src == 1 && a.divisor == 0 ? NULL : p->fold,
                                 .elem_bytes = dtype_bytes(p->spec.dtype),
                                 .sink = o->sinks ? p : NULL};
}

void program_call(const struct program_call *c)
{
    if (c->sink != NULL) {
        run_sink(c->sink, &c->args);
    } else if (c->fold == NULL) {
        fold_copy(&c->args, c->elem_bytes);
    } else {
        c->fold(&c->args);
    }
}

void program_run(const struct program *p, const uintptr_t *bases, size_t tree, size_t chunk,
                 size_t op)
{
    struct program_call c = program_prepare(p, bases, tree, chunk, op);

    program_call(&c);
}
