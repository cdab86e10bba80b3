#define T float
#define LOAD vec_load_f32
#define STORE vec_store_f32
#define KERNELS kernels_avx2
#define KERNELS_ISA "avx2"

#include "nn/kernels/kernel_body.h"
