#ifndef TESTS_TRAIN_SEALED_H
#define TESTS_TRAIN_SEALED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"
#include "nn/ops.h"

/*
 * Devices of the host, sealed off like those with a memory of their own:
 *   - their memory lies at addresses where the host's threads fault;
 *   - what is put on a stream runs later, when a thread waits for it, in a random order of those
 *     that streams and events allow;
 *   - memory that is released, and streams and events that are destroyed, must not be in use.
 * The op library is the host's, behind the same wall. So a program that gets the host's results
 * from them never touches the memory of devices, and leaves out no event.
 */
enum {
    SEALED_DEVICES = 4
};

const struct device_ops *sealed_device(void);
const struct nn_ops *sealed_ops(void);

/* Orders follow from the seed and from the order of the threads' calls. */
void sealed_seed(uint64_t seed);

/* Bytes, from now on: 64 at first, as on the host, which gives arenas the same layout; up to 256.
 */
void sealed_set_align(size_t bytes);

/* Broken rules, since the start. */
size_t sealed_faults(void);

/* Waits of the calling thread for a stream or event that had not come there: how often the host
 * stood still. */
size_t sealed_stops(void);

/* How often it was about to have no work: the calling thread waited for a place on a stream behind
 * which there was no other forward pass, whether the stream had come there or not. */
size_t sealed_near_waits(void);

/* From now on leave out the wait of a stream number `k` (from 1) for an event; 0: none. */
void sealed_drop_wait(size_t k);
size_t sealed_n_waits(void);

/* From now on the op library keeps the step and the scale of the time when a call was made, as a
 * library would that takes them as arguments: what replays a call has the wrong ones then. */
void sealed_bake(bool on);

#endif
