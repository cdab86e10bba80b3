#ifndef NN_OPS_H
#define NN_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "nn/graph.h"
#include "nn/net.h"
#include "nn/op_now.h"

/*
 * A library of operations: one slot per layer kind. The graph owns all memory and the order of
 * calls; the library chooses the layout of every value and does the arithmetic.
 *
 * Life: open, arrange (layouts of all values), create for each node, then any number of forward and
 * backward calls, destroy for each node, close. All of them run in the thread that drives the
 * graph. With a place, all operands are memory of its device, except for the result, which is the
 * host's, and calls are put on its stream.
 */

enum value_layout {
    LAYOUT_NCHW,    /* canonical; only the input of the graph */
    LAYOUT_NHWC,    /* channels last; also every value of one pixel */
    LAYOUT_BLOCKED, /* [N][C/16][H][W][16], channels padded with zeros */
};

/* How a value lies in memory. For a smaller batch it is a prefix of the larger one. */
struct value_desc {
    struct shape shape;
    enum value_layout layout;
    enum graph_dtype dtype;
};

/* One call of an op: a layer and the layers that were fused into it. */
struct op_node {
    enum layer_kind kind;
    const struct net *net;
    const struct layer *layer;    /* the first of the fused ones: has the parameters and the name */
    bool add;                     /* batch norm: the last input is added to its result */
    bool relu;                    /* the result is max(0, result) */
    int inputs[LAYER_MAX_INPUTS]; /* values */
    int n_inputs;
    int output; /* value */
    bool wants_dx[LAYER_MAX_INPUTS];
    bool wants_dw; /* training, and the node has parameters */
};

/* What all nodes of a graph share. */
struct op_env {
    const size_t *batches; /* descending */
    size_t n_batches;
    bool training;
    enum graph_dtype compute;
    bool tf32;
    int n_threads;
    uint64_t seed;
    int rank;
    const struct device_place *place; /* NULL: the host */
    struct tuning *tuning;            /* NULL: choose without timing */
    int variant;      /* VARIANT_BEST, or the variant to use wherever it can be, to time it */
    bool *incomplete; /* set when a choice was made without a time */
};

enum {
    VARIANT_BEST = -1
};

/* The three calls of a node that are timed. */
enum op_call {
    CALL_FORWARD,
    CALL_BACKWARD, /* all of it for ops without backward_weights */
    CALL_BACKWARD_WEIGHTS,
    OP_CALLS
};

/* What the graph must provide for a node, said by `create`. */
struct op_info {
    bool needs_x, needs_y; /* backward reads the inputs, the output */
    bool takes_two;        /* backward takes the gradient as a sum of two */
    bool masks;   /* backward applies the mask of a fused ReLU itself; otherwise the graph does */
    bool over_dy; /* backward may write dx[0] over dy[0] */
    bool rest_over_dy;                /* backward may write dx[1] over dy[0] (and not dx[0]) */
    size_t kept_bytes;                /* from forward to backward */
    size_t scratch_bytes[2];          /* during a call: forward, backward */
    size_t derived_bytes;             /* the part of them that holds weights in another layout */
    size_t param_n[LAYER_MAX_PARAMS]; /* elements in the arena, padding included */
    size_t state_n;                   /* floats of running statistics */
    int algorithm[OP_CALLS];          /* which one each call uses; 0 where there is one only */
};

/* The operands of a call. Gradients are in the layout of their values. */
struct op_io {
    size_t n; /* samples: batches[batch] */
    size_t batch;
    bool training;
    uint64_t step;
    const struct op_now *now; /* a device's, which is to be read there instead of step and scale */
    uint64_t weights_version; /* changes when w does */
    const void *x[LAYER_MAX_INPUTS];
    void *y;
    const void *dy[2];          /* the gradient of y; dy[1] is another summand, or NULL */
    void *dx[LAYER_MAX_INPUTS]; /* overwritten; NULL where nobody wants it */
    void *kept, *scratch;
    const float *w[LAYER_MAX_PARAMS];
    float *dw[LAYER_MAX_PARAMS]; /* overwritten, padding included */
    float *state;                /* running mean[C], variance[C] */
    const int32_t *labels;       /* the loss only, from here on */
    float scale;
    struct graph_result
        *result; /* added to; a device's library sets all but n, when it gets there */
};

struct op_kind {
    /* Build the op of `node`. Sets *op also on failure where there is something to destroy. Errors:
     * ST_NOMEM; ST_UNSUPPORTED with layer and shape. */
    MUST_CHECK enum status (*create)(void *lib, const struct op_env *env,
                                     const struct op_node *node, const struct value_desc *values,
                                     struct op_info *info, void **op);
    void (*destroy)(void *op); /* takes NULL */
    MUST_CHECK enum status (*forward)(void *op, const struct op_io *io);
    /* Write dw only, before backward writes dx; NULL where backward writes both. */
    MUST_CHECK enum status (*backward_weights)(void *op, const struct op_io *io);
    MUST_CHECK enum status (*backward)(void *op, const struct op_io *io); /* NULL: the loss only */
    /* Where element `i` (canonical) of parameter `k` lies in its range; NULL: at `i`. */
    size_t (*param_index)(const void *op, int k, size_t i);
};

struct nn_ops {
    const char *name; /* "onednn" */
    const char *(*version)(void);
    MUST_CHECK enum status (*open)(const struct op_env *env, void **lib);
    void (*close)(void *lib);
    /* Choose layout and dtype of every value (shapes are set). */
    MUST_CHECK enum status (*arrange)(void *lib, const struct op_env *env,
                                      const struct op_node *nodes, int n_nodes,
                                      struct value_desc *values);
    /* g = (y > 0) · (a + b); y NULL: no mask; b NULL: zero. g may be a or b. */
    void (*gradient)(void *lib, const struct value_desc *v, size_t n, const void *y, const void *a,
                     const void *b, void *g);
    void (*attach)(void *lib); /* before each pass: the calling thread drives the graph */
    int n_variants; /* whole-graph settings that together use every algorithm and layout */
    /* The name of a call for the tuning; false if there is nothing to choose. */
    bool (*key)(const struct op_env *env, const struct op_node *node,
                const struct value_desc *values, enum op_call call, int algorithm, char *key,
                size_t key_bytes);
    const struct op_kind *kinds[LAYER_KINDS];
};

/* Bytes of `n` samples of a value. */
size_t value_bytes(const struct value_desc *v, size_t n);

/* Elements of one sample, padding included. */
size_t value_elements(const struct value_desc *v);

/* Whether it lies in memory like the caller's input: canonical fp32. */
bool value_is_canonical(const struct value_desc *v);

/* Where element `i` (canonical, C·H·W order) of a sample lies in it. */
size_t value_index(const struct value_desc *v, size_t i);

#endif
