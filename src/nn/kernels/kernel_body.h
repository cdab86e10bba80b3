/*
 * All kernels of one instruction set and element type. The including file defines T, LOAD, STORE,
 * KERNELS (the table's name) and KERNELS_ISA, and is compiled for that instruction set.
 */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "nn/kernels/kernels.h"
#include "nn/kernels/vec.h"

#include "nn/kernels/kernel_flat.h"
#include "nn/kernels/kernel_norm.h"
#include "nn/kernels/kernel_pool.h"

extern const struct kernels KERNELS;

const struct kernels KERNELS = {
    .isa = KERNELS_ISA,
    .elem_bytes = sizeof(T),
    .add = flat_add,
    .relu = flat_relu,
    .gradient = flat_gradient,
    .dropout = flat_dropout,
    .widen = flat_widen,
    .narrow = flat_narrow,
    .norm_moments = norm_moments,
    .norm_apply = norm_apply,
    .norm_sums = norm_sums,
    .norm_gradient = norm_gradient,
    .max_pool = max_pool,
    .max_unpool = max_unpool,
    .avg_pool = avg_pool,
    .avg_unpool = avg_unpool,
    .bias_rows = flat_bias_rows,
    .sum_rows = flat_sum_rows,
};
