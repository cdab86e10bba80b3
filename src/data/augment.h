#ifndef DATA_AUGMENT_H
#define DATA_AUGMENT_H

#include "data/dataset.h"

/* Where a sample's pixels lie in the image that the network sees. */
struct placement {
    ptrdiff_t top, left; /* of the sample's first pixel; may be negative */
    bool mirror;         /* the whole image, after placing */
};

/* The sample in the middle of the padded image, as evaluation sees it. */
struct placement augment_centre(const struct dataset *d);

/*
 * The placement of sample `id` in training epoch `epoch`: moved by up to crop_pad pixels in each
 * direction and mirrored at random, a pure function of (seed, epoch, id).
 */
struct placement augment_draw(const struct dataset *d, const struct config_data *cfg, uint64_t seed,
                              uint64_t epoch, size_t id);

/*
 * Overwrite y[c, out_h, out_w] with the normalised sample x[c, h, w]; pixels outside it count as
 * pixels of value 0.
 */
void augment_write(const struct dataset *d, const uint8_t *x, struct placement p, float *y);

#endif
