#include "comm/merge.h"

static double later(double a, double b)
{
    return a > b ? a : b;
}

static double message_s(const struct merge_cost *cost, uint64_t bytes)
{
    return bytes == 0 ? 0 : cost->start_s + (double)bytes * cost->s_per_byte;
}

size_t merge_layers(const struct merge_layer *layers, size_t n, const struct merge_cost *cost,
                    bool *ends)
{
    double ready = 0, link_free = 0; /* of this layer; of the messages before */
    uint64_t bytes = 0;              /* of the message that grows */
    size_t n_messages = 0;

    for (size_t i = 0; i < n; i++) {
        double start, end, next;
        ready += layers[i].backward_s;
        bytes += layers[i].bytes;
        start = later(link_free, ready);
        end = start + message_s(cost, bytes);
        next = i + 1 < n ? ready + layers[i + 1].backward_s : 0;
        ends[i] = i + 1 == n ||
                  (bytes > 0 && !(next < end && (start > next || next - start < cost->start_s)));
        if (ends[i]) {
            link_free = bytes > 0 ? end : link_free;
            bytes = 0;
            n_messages++;
        }
    }
    return n_messages;
}

double merge_end_s(const struct merge_layer *layers, size_t n, const struct merge_cost *cost,
                   const bool *ends)
{
    double ready = 0, link_free = 0;
    uint64_t bytes = 0;

    for (size_t i = 0; i < n; i++) {
        ready += layers[i].backward_s;
        bytes += layers[i].bytes;
        if (ends[i] && bytes > 0) {
            link_free = later(link_free, ready) + message_s(cost, bytes);
            bytes = 0;
        }
    }
    return later(link_free, ready);
}
