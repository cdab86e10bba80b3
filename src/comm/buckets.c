#include <string.h>

#include "comm/comm.h"

/* Is bucket `index` of `n` elements and `n_layers` layers large enough to be closed? */
static bool is_full(const struct config_comm *cfg, size_t index, size_t n, size_t n_layers)
{
    const struct config_reals *merged = &cfg->bucket_layers;
    uint64_t limit = index == 0 ? cfg->first_bucket_bytes : cfg->bucket_bytes;

    if (strcmp(cfg->buckets, "merge") == 0 && merged->n > 0) {
        return index < merged->n && (double)n_layers >= merged->v[index];
    }
    if (strcmp(cfg->buckets, "layer") == 0 || strcmp(cfg->buckets, "merge") == 0) {
        return true;
    }
    return strcmp(cfg->buckets, "one") != 0 && n * sizeof(float) >= limit;
}

size_t comm_make_buckets(const struct config_comm *cfg, const size_t *cuts, size_t n_cuts,
                         struct comm_bucket *out)
{
    size_t n_out = 0, offset = 0, n_layers = 0;

    for (size_t i = 0; i < n_cuts; i++) {
        size_t n = cuts[i] - offset;
        n_layers++;
        if (n > 0 && (i + 1 == n_cuts || is_full(cfg, n_out, n, n_layers))) {
            out[n_out] = (struct comm_bucket){.offset = offset, .n = n};
            n_out++;
            offset = cuts[i];
            n_layers = 0;
        }
    }
    return n_out;
}
