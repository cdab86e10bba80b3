#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "nn/onednn/od.h"

/*
 * Softmax cross-entropy, in fp32 with sums in fp64. A sample counts as correct in the first k if
 * fewer than k classes are better than its label; another class is better with a larger output, or
 * with an equal one and a smaller index. An output that is not a number is never correct.
 */
struct loss {
    struct value_desc in;
    size_t classes;
    size_t *at; /* by class: where its output lies in a sample */
};

static void loss_destroy(void *op)
{
    struct loss *l = op;

    if (l != NULL) {
        mem_free(l->at);
        mem_free(l);
    }
}

static enum status loss_create(void *lib, const struct op_env *env, const struct op_node *node,
                               const struct value_desc *values, struct op_info *info, void **op)
{
    struct loss *l = mem_alloc(1, sizeof *l);

    (void)lib;
    if (l == NULL) {
        return ST_NOMEM;
    }
    *op = l;
    l->in = values[node->inputs[0]];
    l->classes = (size_t)net_classes(node->net);
    l->at = mem_alloc(l->classes, sizeof *l->at);
    if (l->at == NULL) {
        return ST_NOMEM;
    }
    for (size_t c = 0; c < l->classes; c++) {
        l->at[c] = value_index(&l->in, c);
    }
    info->kept_bytes = env->batches[0] * l->classes * sizeof(float); /* probabilities */
    return ST_OK;
}

static void count_correct(const float *z, size_t classes, size_t label, struct graph_result *r)
{
    size_t better = 0;

    if (isnan(z[label])) {
        return;
    }
    for (size_t c = 0; c < classes; c++) {
        better += z[c] > z[label] || (z[c] == z[label] && c < label);
    }
    r->top1 += better < 1;
    r->top5 += better < 5;
}

/* Probabilities over p[classes], which holds the outputs; returns the loss. */
static double softmax(float *p, size_t classes, size_t label)
{
    float most = p[0], at_label = p[label];
    double sum = 0.0;

    for (size_t c = 1; c < classes; c++) {
        most = p[c] > most ? p[c] : most;
    }
    for (size_t c = 0; c < classes; c++) {
        p[c] = expf(p[c] - most);
        sum += (double)p[c];
    }
    for (size_t c = 0; c < classes; c++) {
        p[c] = (float)((double)p[c] / sum);
    }
    return log(sum) - ((double)at_label - (double)most);
}

static enum status loss_forward(void *op, const struct op_io *io)
{
    const struct loss *l = op;
    size_t row = value_elements(&l->in);
    float *p = io->kept;

    for (size_t n = 0; n < io->n; n++, p += l->classes) {
        for (size_t c = 0; c < l->classes; c++) {
            p[c] = od_get(l->in.dtype, io->x[0], n * row + l->at[c]);
        }
        count_correct(p, l->classes, (size_t)io->labels[n], io->result);
        io->result->loss_sum += softmax(p, l->classes, (size_t)io->labels[n]);
    }
    return ST_OK;
}

static enum status loss_backward(void *op, const struct op_io *io)
{
    const struct loss *l = op;
    size_t row = value_elements(&l->in);
    const float *p = io->kept;

    memset(io->dx[0], 0, value_bytes(&l->in, io->n)); /* padding */
    for (size_t n = 0; n < io->n; n++, p += l->classes) {
        for (size_t c = 0; c < l->classes; c++) {
            float d = p[c] - (c == (size_t)io->labels[n] ? 1.0f : 0.0f);
            od_put(l->in.dtype, io->dx[0], n * row + l->at[c], io->scale * d);
        }
    }
    return ST_OK;
}

const struct op_kind od_loss = {.create = loss_create,
                                .destroy = loss_destroy,
                                .forward = loss_forward,
                                .backward = loss_backward};
