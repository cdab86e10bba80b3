#define T float
#define LOAD vec_load_f32
#define STORE vec_store_f32
#define KERNELS kernels_generic
#define KERNELS_ISA "generic"

#include "nn/kernels/kernel_body.h"
