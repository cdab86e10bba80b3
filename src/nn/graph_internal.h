#ifndef NN_GRAPH_INTERNAL_H
#define NN_GRAPH_INTERNAL_H

#include "nn/graph.h"
#include "nn/ops.h"

/*
 * Inside a graph. Its nodes run in order forward and in reverse order backward; call number t of a
 * training step is the forward call of node t for t < n_nodes and the backward call of node
 * 2·n_nodes - 1 - t after that. Every buffer lives from its first to its last call, and buffers
 * whose lives do not touch share memory.
 */

enum {
    NO_BUFFER = -1,
    /* Scratch memory up to this size is one buffer that stays in the caches; larger ones are
     * planned call by call, where activations are not alive. */
    SHARED_SCRATCH_BYTES = 1 << 20
};

enum buffer_use {
    BUFFER_ACTIVATION,
    BUFFER_KEPT,
    BUFFER_GRADIENT,
    BUFFER_SCRATCH,
};

struct buffer {
    enum buffer_use use;
    size_t bytes;
    int first, last; /* calls */
    int holders;     /* while planning: gradients of values that are, or are part of, this buffer */
    size_t offset;
};

/* dst = a + b, for the gradient of a value that several layers read. */
struct summation {
    int value, dst, a, b; /* dst, a, b: buffers */
};

struct node {
    struct op_node op_node;
    const struct op_kind *kind;
    void *op;
    struct op_info info;
    bool has_backward;
    int first_param; /* of graph_param() */
    size_t state_offset;
    /* buffers */
    int scratch[2]; /* forward, backward: a planned one, or NO_BUFFER for the shared one */
    int kept, dy[2], dx[LAYER_MAX_INPUTS];
    int combined_from[2]; /* dy[0] is first made of these and the mask, if [0] is a buffer */
    struct summation sums[LAYER_MAX_INPUTS]; /* after backward */
    int n_sums;
    struct op_io io;
    int64_t spent_ns[OP_CALLS]; /* while the graph is timed */
};

/* What is the same for all calls of a forward pass. */
struct pass {
    const float *x;        /* where it is computed */
    const int32_t *labels; /* there too */
    size_t n, batch;       /* samples, index of this batch size */
    bool training;
    uint64_t step;
};

/* A batch on its way to the device, and its result on the way back. */
struct stage_slot {
    float *host_x, *x;
    int32_t *host_labels, *labels;
    void *filled; /* event: the copy to the device has been made */
    void *read;   /* event: no pass needs it any more */
    struct pass pass;
    struct graph_result *result; /* the host's */
    void *done;                  /* event: it is there */
};

/* What a graph on a device needs to exchange with the host (graph_stage.c). While one batch is
 * computed with, the next one is copied. */
struct stage {
    void *upload; /* stream */
    struct stage_slot slots[2];
    int next;
    int n_left, seen;   /* results that were not collected; the slot of the last one */
    struct op_now *now; /* the device's */
};

enum capture_pass {
    CAPTURE_EVALUATION,
    CAPTURE_FORWARD,
    CAPTURE_BACKWARD,
    CAPTURE_PASSES
};

/* The calls of a pass from one cut to the next. */
struct stretch {
    void *graph;
    size_t end; /* calls of the pass before its end */
};

struct replay {
    enum {
        REPLAY_NEW,
        REPLAY_WARM, /* run once, so that libraries have loaded and set up what they need */
        REPLAY_READY,
        REPLAY_FAILED
    } state;
    struct stretch *stretches;
    size_t n;
};

/* Passes on a device's stream, as graphs (graph_capture.c). */
struct capture {
    struct replay *all;  /* [n_batches][2 slots][CAPTURE_PASSES]; NULL: none */
    struct replay *pass; /* the one under way; NULL: its calls are issued */
    bool taking;         /* it is captured for the first time */
    bool open;           /* there are calls since the last cut */
    size_t calls, at;    /* of the pass; stretches that were launched */
};

struct graph {
    struct graph_args args;
    size_t *batches;
    struct op_env env;
    void *lib;
    int n_values;
    struct value_desc *values;
    int *value_buffer; /* by value; NO_BUFFER: the caller's x, or not made */
    struct node *nodes;
    int n_nodes;
    struct buffer *buffers;
    int n_buffers, max_buffers;
    char *memory, *scratch;
    size_t memory_bytes, scratch_bytes;
    struct graph_memory report;
    struct graph_param *params;
    int n_params;
    size_t arena_n;
    float *state;
    size_t state_n;
    struct stage stage;
    struct capture capture;
    struct pass pass;           /* the last forward pass */
    struct graph_result result; /* on the host */
    bool timed;                 /* add up spent_ns of the nodes */
    bool trained;               /* the last forward pass was one of training */
};

/* graph_fuse.c: the nodes of the net, with fusions, ready except for the ops. Errors: ST_NOMEM. */
MUST_CHECK enum status graph_fuse(struct graph *g);

/*
 * graph_tune.c: time all variants of the op library for these arguments, in whole training steps,
 * and enter the times into the tuning. Errors: as graph_create.
 */
MUST_CHECK enum status graph_tune(const struct graph_args *args);

/* graph.c: build with one variant of the op library, or with the best. */
MUST_CHECK enum status graph_build(const struct graph_args *args, int variant, bool *incomplete,
                                   struct graph **out);

/* graph_plan.c: decide all buffers of nodes with known op_info; sets offsets and sizes. Errors:
 * ST_NOMEM. */
MUST_CHECK enum status graph_plan(struct graph *g);

/* graph_params.c: lay out the arena. Errors: ST_NOMEM. */
MUST_CHECK enum status graph_layout_params(struct graph *g);

/* graph_stage.c: only for graphs with a place. Errors: ST_NOMEM, the device's. */
MUST_CHECK enum status graph_stage_init(struct graph *g);
void graph_stage_fini(struct graph *g); /* takes half-built ones */

/* Copy the batch of a pass to the device; its x and labels are the device's memory then, until the
 * pass after the next one. ST_BADARG if both have left results. */
MUST_CHECK enum status graph_stage_put(struct graph *g, struct pass *pass);

/* The last pass has left a result; collect the oldest. */
MUST_CHECK enum status graph_stage_leave(struct graph *g);
MUST_CHECK enum status graph_stage_collect(struct graph *g, struct graph_result *out);

/* Copy memory of the place to the host, after what was put on the stream, and wait for it. */
MUST_CHECK enum status graph_stage_fetch(const struct graph *g, void *to, const void *from,
                                         size_t bytes);

/* Put step or scale, by its offset in struct op_now, where the calls on the stream read it. */
MUST_CHECK enum status graph_stage_now(const struct graph *g, size_t offset, const void *value,
                                       size_t bytes);

/* graph_capture.c: only for graphs with a place. Errors: ST_NOMEM. */
MUST_CHECK enum status graph_capture_init(struct graph *g);
void graph_capture_fini(struct graph *g); /* takes half-built ones; nothing may be under way */

/* A pass over g->pass.batch begins, and has ended with `st`, which is returned unless the capture
 * fails. Between them: is the next call to be issued, or done by what was captured? */
void graph_capture_begin(struct graph *g, enum capture_pass pass);
MUST_CHECK enum status graph_capture_end(struct graph *g, enum status st);
MUST_CHECK enum status graph_capture_call(struct graph *g, bool *issue);

/* graph_run.c: the forward call of one node. */
MUST_CHECK enum status graph_forward_node(struct graph *g, struct node *n,
                                          const struct graph_hooks *hooks);

/* Bytes to which buffers and parameters are aligned. */
static inline size_t graph_align(const struct graph *g)
{
    const size_t cache_line = 64;

    return g->args.place != NULL ? g->args.place->ops->align : cache_line;
}

static inline void *graph_buffer(const struct graph *g, int b)
{
    return b == NO_BUFFER ? NULL : g->memory + g->buffers[b].offset;
}

#endif
