#ifndef NN_OD_CHOOSE_H
#define NN_OD_CHOOSE_H

#include "nn/onednn/od_conv_pass.h"

/* Which algorithm and which layout: from the times in the tuning, or by rules where there are none.
 */

enum od_variant {
    OD_VARIANT_BLOCKED,  /* blocked layouts, direct convolutions */
    OD_VARIANT_WINOGRAD, /* the same with Winograd's wherever they exist */
    OD_VARIANT_LAST,     /* channels-last layouts */
    OD_VARIANT_GEMM,     /* the same with matrix products wherever they are reasonable */
    OD_VARIANTS
};

/* See struct nn_ops. */
bool od_key(const struct op_env *env, const struct op_node *node, const struct value_desc *values,
            enum op_call call, int algorithm, char *key, size_t key_bytes);

/* The algorithm for the pass that `q` describes (q->algorithm is not read). */
enum od_algorithm od_choose_algorithm(const struct op_env *env, const struct conv_request *q);

/*
 * Add the time of all calls of `node` with these layouts, each with its best algorithm, to `*ns`.
 * False if a time is missing. Nodes other than convolutions and norms count as nothing.
 */
bool od_add_cost(const struct op_env *env, const struct od *lib, const struct op_node *node,
                 const struct value_desc *in, const struct value_desc *out, int64_t *ns);

#endif
