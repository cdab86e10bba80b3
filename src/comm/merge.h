#ifndef COMM_MERGE_H
#define COMM_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Which layers to send together so that backward and communication end soonest (MG-WFBP: Shi, Chu,
 * Li, INFOCOM 2019). Layers are in the order in which backward finishes them; messages are sent one
 * after the other, and one of s bytes takes start_s + s * s_per_byte.
 *
 * A layer joins the next one if that is ready before the layer's own message would end, and either
 * its message could not have begun yet, or waiting costs less than a start-up. Layers without
 * bytes send nothing.
 */
struct merge_layer {
    double backward_s;
    uint64_t bytes;
};

struct merge_cost {
    double start_s, s_per_byte;
};

/* Set ends[i] where a message ends with layer i; the last is always set. Returns how many are. */
size_t merge_layers(const struct merge_layer *layers, size_t n, const struct merge_cost *cost,
                    bool *ends);

/*
 * The same with the cut whose last message ends soonest; of equal ones that with the longest last
 * messages. merge_layers looks one layer ahead: where each layer alone is worth waiting for, it may
 * wait for all of them. Here every cut is weighed: best(j) = min over i < j of
 * max(best(i), ready(j)) + message(i ... j). `work` has n + 1 entries.
 */
struct merge_step {
    double end_s;
    size_t first; /* layer of the last message */
};

size_t merge_best(const struct merge_layer *layers, size_t n, const struct merge_cost *cost,
                  struct merge_step *work, bool *ends);

/* When the last message ends, backward having begun at 0. */
double merge_end_s(const struct merge_layer *layers, size_t n, const struct merge_cost *cost,
                   const bool *ends);

#endif
