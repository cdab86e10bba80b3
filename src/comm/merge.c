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

/* The best last message of layers 0 ... j-1, which are ready at `ready`. */
static struct merge_step best_of(const struct merge_layer *layers, size_t j, double ready,
                                 const struct merge_cost *cost, const struct merge_step *work)
{
    struct merge_step best = {0, 0};
    uint64_t bytes = 0;

    for (size_t i = j; i-- > 0;) {
        double end_s;
        bytes += layers[i].bytes;
        end_s = bytes == 0 ? work[i].end_s : later(work[i].end_s, ready) + message_s(cost, bytes);
        if (i + 1 == j || end_s <= best.end_s) {
            best = (struct merge_step){end_s, i};
        }
    }
    return best;
}

size_t merge_best(const struct merge_layer *layers, size_t n, const struct merge_cost *cost,
                  struct merge_step *work, bool *ends)
{
    double ready = 0;
    size_t n_messages = 0;

    work[0] = (struct merge_step){0, 0};
    for (size_t j = 1; j <= n; j++) {
        ready += layers[j - 1].backward_s;
        work[j] = best_of(layers, j, ready, cost, work);
        ends[j - 1] = false;
    }
    for (size_t j = n; j > 0; j = work[j].first) {
        ends[j - 1] = true;
        n_messages++;
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
