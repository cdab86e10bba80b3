#ifndef DATA_SYNTHETIC_H
#define DATA_SYNTHETIC_H

#include "data/dataset.h"

/* The open function of the synthetic dataset. */
MUST_CHECK enum status synthetic_open(const struct dataset_request *q, struct dataset *d);
void synthetic_close(struct synthetic *s); /* takes NULL */

size_t synthetic_scratch_bytes(const struct synthetic *s);

/* Make the pixels[c, h, w] of sample `id` at the start of `scratch`. */
void synthetic_make(const struct synthetic *s, size_t id, uint8_t *scratch);

int32_t synthetic_label(const struct synthetic *s, size_t id);

#endif
