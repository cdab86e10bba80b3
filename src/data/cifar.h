#ifndef DATA_CIFAR_H
#define DATA_CIFAR_H

#include "data/dataset.h"

/*
 * The open function of CIFAR-10's binary version: data_batch_1.bin to data_batch_5.bin and
 * test_batch.bin, each of 10000 records of a label byte and pixels[3, 32, 32].
 */
MUST_CHECK enum status cifar_open(const struct dataset_request *q, struct dataset *d);

#endif
