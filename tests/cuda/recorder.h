#ifndef TESTS_CUDA_RECORDER_H
#define TESTS_CUDA_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"

/*
 * Devices that only write down what is put on their streams. What was written down can then be
 * played on real memory again and again, each time in another order that streams and events allow,
 * as the documentation of CUDA describes them:
 *   - a stream runs its commands in order;
 *   - a wait goes on after the last record of the event before the wait was *issued*, and has no
 *     effect if there was none;
 *   - copies and kernels make the device of their stream the calling thread's;
 *   - in a capture, streams join by waiting for a captured event, and must be joined at its end.
 * Breaking a rule of the interface is counted in `faults`.
 */
struct recorder;

enum {
    RECORDER_MAX_RANKS = 16
};

/* Rank r is on device device_of[r]; memory of other devices is reached if `peers`. `*set` is what
 * recorder_ops want. */
struct recorder *recorder_create(int n_ranks, const int *device_of, bool peers);
void recorder_destroy(struct recorder *r);

/* The table; with `graphs` it has captures. */
struct device_ops recorder_ops(bool graphs);

/* A command of the test: fn(ctx, a, b) at this place of the stream. */
void recorder_call(struct recorder *r, void *stream, void (*fn)(void *ctx, int a, int b), void *ctx,
                   int a, int b);

/* The calling thread's device. */
int recorder_device(const struct recorder *r);

/* Streams of that urgency that are there. */
size_t recorder_n_streams(const struct recorder *r, int urgency);

size_t recorder_faults(const struct recorder *r);
size_t recorder_n_commands(const struct recorder *r);

/* The waits that have an effect, by number. */
size_t recorder_n_waits(const struct recorder *r);

/* Fill all memory with garbage, then play everything in a random legal order. With `sluggish`
 * streams differ in speed, so that some run far ahead; else all are alike. */
void recorder_play(struct recorder *r, uint64_t seed, bool sluggish);

/*
 * Play without wait number `w`, in the orders in which it is missed most: one after the other, each
 * command that the wait was to hold back starts before everything that it need not follow, and
 * finishes at once or behind all that. Calls `check` after each play, until it says true.
 */
bool recorder_play_without(struct recorder *r, size_t w, bool (*check)(void *ctx), void *ctx);

#endif
