#define T uint16_t
#define LOAD vec_load_bf16
#define STORE vec_store_bf16
#define KERNELS kernels_bf16
#define KERNELS_ISA "avx512_bf16"

#include "nn/kernels/kernel_body.h"
