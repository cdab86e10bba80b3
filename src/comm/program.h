#ifndef COMM_PROGRAM_H
#define COMM_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "comm/dtype.h"
#include "comm/fold.h"
#include "comm/plan.h"

/*
 * A plan on n elements: a graph of operations on the nodes' buffers, ordered by dependencies only.
 *
 * Every tree of the plan cuts its share into chunks, and all chunks of a tree run the same few
 * operations (a template), each chunk on its own: no operation waits for one of another chunk or
 * tree. An operation of the instance (tree, chunk) may run once the operations that name it in
 * `next` have run on that chunk and the nodes in its `posts` have given their buffers. A relay
 * counts as posted when all ranks have posted.
 */
enum program_buf {
    BUF_IN,  /* a rank's contribution */
    BUF_OUT, /* a rank's result; the same as BUF_IN when in place */
    BUF_TMP, /* partial results that are in nobody's result; relays have nothing else */
    N_BUFS,
};

struct program_ref {
    int node;
    enum program_buf buf;
};

/* dst[*] = fold of src[*] in their order, divided by the number of ranks if `finish`. */
struct program_op {
    size_t src, dst;           /* first of its refs */
    size_t next, posts, ranks; /* first of its ints: operations, nodes, ranks whose memory it
                                  touches */
    int n_src, n_dst, n_next, n_posts, n_ranks;
    int n_deps;              /* operations and posts that it waits for */
    const struct path *path; /* links that its data cross, in the plan; NULL if none or fused */
    int n_after; /* rounds of its chunk that follow, if who hands on sends one at a time */
    int round; /* of an exchange: sums are made as early as possible, copies as late as possible */
    bool finish;
    bool sinks; /* its result goes to the program's sink; n_dst is 0 */
};

struct program_tree {
    size_t offset, n; /* elements of the message */
    size_t chunk, n_chunks;
    size_t op, n_ops;      /* first of its ops */
    size_t first_instance; /* number of (chunk 0, op 0); chunk c, op i is c n_ops + i later */
};

struct program_spec {
    enum dtype dtype;
    enum redop redop;
    bool in_place;
    bool fuse;          /* join operations around one node where the links need no separate ones */
    size_t n;           /* elements of the whole message */
    size_t chunk_bytes; /* 0: the plan's, or a default */
};

/*
 * Takes the sums of an allreduce where they arise, at the roots of the trees, instead of handing
 * them back to the ranks: elements [first, first + n) of the message are (parts[0] + parts[1]) +
 * ... of n_parts arrays of n elements. Every element comes exactly once in a run, after all ranks
 * have given their buffers; ranges may come at the same time from several threads.
 */
struct program_sink {
    void (*take)(void *ctx, size_t first, size_t n, const float *const *parts, int n_parts);
    void *ctx; /* take NULL: there is no sink */
};

enum {
    PROGRAM_PARTS = 8 /* at most, of a sink */
};

struct program {
    struct program_spec spec;
    struct program_sink sink;
    enum collective collective;
    int n_ranks, n_nodes;
    struct program_tree *trees;
    struct program_op *ops;
    struct program_ref *refs;
    int *ints;
    size_t n_trees, n_ops, n_refs, n_ints;
    size_t n_instances;
    size_t *touches; /* [n_ranks] instances that read or write memory of the rank */
    bool *has_tmp;   /* [n_nodes] */
    fold_fn *fold;
    bool whole;  /* the plan is not pipelined: what is ready for the same hop goes as one message */
    bool stream; /* the message is so large that no cache would keep the results */
};

/*
 * Lower `plan` to a program. The plan must outlive it. Needs memory for the templates only,
 * whatever n is. Errors: ST_NOMEM.
 */
MUST_CHECK enum status program_create(const struct plan *plan, const struct program_spec *spec,
                                      struct program **out);
void program_destroy(struct program *p); /* takes NULL */

/*
 * The same up to the roots of the trees, where `sink` takes the sums: no rank gets a result, and
 * what is left in the buffers means nothing. The order of additions is that of the program without
 * a sink. The plan must be of an allreduce; the spec in place, DTYPE_F32 and REDOP_SUM.
 */
MUST_CHECK enum status program_create_sink(const struct plan *plan, const struct program_spec *spec,
                                           const struct program_sink *sink, struct program **out);

/*
 * Prove by symbolic execution that every legal order leaves in every rank's result each
 * contribution exactly once: chunks tile the message, accesses that conflict are ordered, buffers
 * are given before they are touched. Errors: ST_INTERNAL with the reason logged; ST_NOMEM.
 */
MUST_CHECK enum status program_check(const struct program *p, const struct plan *plan);

/* The number of an operation on a chunk, and the tree of an operation with that number. */
static inline size_t program_instance(const struct program *p, size_t tree, size_t chunk, size_t op)
{
    const struct program_tree *t = &p->trees[tree];

    return t->first_instance + chunk * t->n_ops + op;
}
size_t program_tree_of(const struct program *p, size_t instance);

/* First element and number of elements of a chunk. */
size_t program_chunk(const struct program *p, size_t tree, size_t chunk, size_t *n);

/* Elements [first, first + n) of the message that `rank` contributes, or gets. */
size_t program_in_range(const struct program *p, int rank, size_t *n);
size_t program_out_range(const struct program *p, int rank, size_t *n);

/* --- Running --- */

/* Memory of a node: element 0 of each buffer, as far as it has one. */
struct program_buffers {
    const void *in; /* in_range elements */
    void *out;      /* out_range elements; in place `in` and `out` overlap as the ranges do */
    void *tmp;      /* n elements where has_tmp */
};

/* Address every ref of the program: `bases` has n_refs entries. */
void program_bind(const struct program *p, const struct program_buffers *buffers, uintptr_t *bases);

/* One operation (numbered within its tree) on one chunk, ready to run: everything looked up. It
 * points into `bases`. */
struct program_call {
    struct fold_args args;
    fold_fn *fold; /* NULL: copy */
    size_t elem_bytes;
    const struct program *sink; /* the result goes to this program's sink; NULL: to memory */
};

struct program_call program_prepare(const struct program *p, const uintptr_t *bases, size_t tree,
                                    size_t chunk, size_t op);
void program_call(const struct program_call *c);

/* Prepare it and run it. */
void program_run(const struct program *p, const uintptr_t *bases, size_t tree, size_t chunk,
                 size_t op);

#endif
