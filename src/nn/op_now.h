#ifndef NN_OP_NOW_H
#define NN_OP_NOW_H

#include <stdint.h>

/* What changes from pass to pass. On a device it is in its memory, for a call is made once and may
 * run many times. */
struct op_now {
    uint64_t step;
    float scale; /* of the backward pass */
};

#endif
