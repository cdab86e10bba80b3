#ifndef NN_CUDNN_CD_KERNEL_NORM_H
#define NN_CUDNN_CD_KERNEL_NORM_H

#include <math.h>

#include "nn/cudnn/cd_kernel_value.h"

/* Kernels that add up all pixels of a channel, and batch norm, which needs such sums. */

/* --- sums over all pixels, for each channel --- */

/*
 * First slices, each a sum over every CD_SLICES-th pixel, then the slices. Item i is channel i % C
 * of slice i / C. The second sum is that of the products with x - mean, where there is an x.
 */
KERNEL void cd_slice(const struct cd_args *a, size_t i)
{
    size_t n_c = a->out_shape.c, c = i % n_c;
    float mean = a->mean != NULL ? a->mean[c] : 0.0f, first = 0.0f, second = 0.0f;

    for (size_t p = i / n_c; p < a->n_pixels; p += CD_SLICES) {
        float g = cd_masked(a, p * n_c + c);
        first += g;
        second += a->x != NULL ? g * (cd_get(a->type, a->x, p * n_c + c) - mean) : 0.0f;
    }
    a->sums[i] = first;
    a->sums[CD_SLICES * n_c + i] = second;
}

/* Sums of x - origin and its square, origin being the channel's first element. */
KERNEL void cd_norm_slice(const struct cd_args *a, size_t i)
{
    size_t n_c = a->out_shape.c, c = i % n_c;
    float origin = cd_get(a->type, a->x, c), first = 0.0f, second = 0.0f;

    for (size_t p = i / n_c; p < a->n_pixels; p += CD_SLICES) {
        float d = cd_get(a->type, a->x, p * n_c + c) - origin;
        first += d;
        second += d * d;
    }
    a->sums[i] = first;
    a->sums[CD_SLICES * n_c + i] = second;
}

KERNEL double cd_total(const struct cd_args *a, size_t which, size_t c)
{
    double sum = 0.0;

    for (size_t s = 0; s < CD_SLICES; s++) {
        sum += (double)a->sums[(which * CD_SLICES + s) * a->out_shape.c + c];
    }
    return sum;
}

/* dbias[c] */
KERNEL void cd_bias_gradient(const struct cd_args *a, size_t c)
{
    a->dbias[c] = (float)cd_total(a, 0, c);
}

/* --- batch norm --- */

/* Mean and 1/deviation of the batch, into the kept ones and the running ones. */
KERNEL void cd_norm_batch(const struct cd_args *a, size_t c)
{
    size_t n_c = a->out_shape.c;
    double count = (double)a->n_pixels, d = cd_total(a, 0, c) / count;
    double var = cd_total(a, 1, c) / count - d * d, unbiased;
    float mean = (float)((double)cd_get(a->type, a->x, c) + d), m = a->momentum;

    var = var > 0.0 ? var : 0.0;
    unbiased = count > 1.0 ? var * count / (count - 1.0) : var;
    a->mean[c] = mean;
    a->inv_std[c] = (float)(1.0 / sqrt(var + (double)a->eps));
    a->state[c] = m * a->state[c] + (1.0f - m) * mean;
    a->state[n_c + c] = m * a->state[n_c + c] + (1.0f - m) * (float)unbiased;
}

/* The same from the running ones. */
KERNEL void cd_norm_running(const struct cd_args *a, size_t c)
{
    a->mean[c] = a->state[c];
    a->inv_std[c] = 1.0f / sqrtf(a->state[a->out_shape.c + c] + a->eps);
}

/* out = gamma (x - mean) inv_std + beta + x2 */
KERNEL void cd_norm_apply(const struct cd_args *a, size_t i)
{
    size_t c = i % a->out_shape.c;
    float scale = a->gamma[c] * a->inv_std[c];
    float y = cd_get(a->type, a->x, i) * scale + (a->bias[c] - a->mean[c] * scale);

    y += a->x2 != NULL ? cd_get(a->type, a->x2, i) : 0.0f;
    cd_put(a->type, a->out, i, a->relu && y < 0.0f ? 0.0f : y);
}

/* dgamma, dbeta, and what dx needs of the sums: their means, scaled. */
KERNEL void cd_norm_sums(const struct cd_args *a, size_t c)
{
    double count = (double)a->n_pixels, s = (double)a->inv_std[c];
    double sum = cd_total(a, 0, c), with_x = cd_total(a, 1, c);

    a->dgamma[c] = (float)(with_x * s);
    a->dbias[c] = (float)sum;
    a->coefficients[c] = (float)(sum / count);
    a->coefficients[a->out_shape.c + c] = (float)(s * s * with_x / count);
}

/* out = dx; out2 = the gradient of what was added, if wanted. dy, dy2 and y as in cd_masked. `out`
 * may be dy. */
KERNEL void cd_norm_gradient(const struct cd_args *a, size_t i)
{
    size_t n_c = a->out_shape.c, c = i % n_c;
    float g = cd_masked(a, i), d = cd_get(a->type, a->x, i) - a->mean[c];
    float dx =
        a->gamma[c] * a->inv_std[c] * (g - a->coefficients[c] - d * a->coefficients[n_c + c]);

    if (a->out2 != NULL) {
        cd_put(a->type, a->out2, i, g);
    }
    if (a->out != NULL) {
        cd_put(a->type, a->out, i, dx);
    }
}

#endif
