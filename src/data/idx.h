#ifndef DATA_IDX_H
#define DATA_IDX_H

#include "data/dataset.h"

/*
 * The IDX format of the MNIST files: a big-endian magic number (0x000008 and the number of
 * dimensions), the dimensions as big-endian 32-bit numbers, and the unsigned bytes.
 */

/* The open function of datasets whose files bear MNIST's names. */
MUST_CHECK enum status idx_open_mnist(const struct dataset_request *q, struct dataset *d);

/* The open function of a dataset whose files are named by data.train_images and so on. */
MUST_CHECK enum status idx_open_named(const struct dataset_request *q, struct dataset *d);

#endif
