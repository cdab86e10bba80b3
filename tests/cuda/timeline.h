#ifndef TESTS_CUDA_TIMELINE_H
#define TESTS_CUDA_TIMELINE_H

#include "device/device.h"

/*
 * Devices in virtual time: what is put on a stream takes as long as it is said to, and streams and
 * events have the times that follow. No bytes are moved. Time goes on when the test says so.
 */
struct timeline;

struct timeline *timeline_create(void); /* what its ops want for a set */
void timeline_destroy(struct timeline *t);
struct device_ops timeline_ops(void);

extern const double timeline_op_s; /* a copy, or a fold */

/* It is that much later; streams that are idle are so until then. */
void timeline_advance(struct timeline *t, double s);

/* `stream` is busy for so long. */
void timeline_work(void *stream, double s);

/* From now on nothing counts as done, whatever the time. */
void timeline_set_silent(struct timeline *t, bool silent);

#endif
