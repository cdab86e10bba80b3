#ifndef DATA_TESTING_H
#define DATA_TESTING_H

/* What the tests of the data module share: generated files, and the messages about bad ones. */

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/data.h"

/* A new empty folder, the same during a test; testing_clean removes it with all that is in it. */
const char *testing_folder(void);
void testing_clean(void);

/* The path of `name` in that folder; valid until the next four calls. */
const char *testing_path(const char *name);

void testing_move(const char *from, const char *to);
void testing_write(const char *name, const void *bytes, size_t n, bool gzip);
void testing_write_idx(const char *name, size_t n_dims, const uint32_t *dims, const uint8_t *data,
                       bool gzip);

/* The pixel number `k` of image `i`, and the label of image `i`, of the generated files. */
uint8_t testing_pixel(size_t i, size_t k);
uint8_t testing_label(size_t i, int classes);

/* MNIST's names of files. */
extern const char testing_train_images[], testing_train_labels[];
extern const char testing_test_images[], testing_test_labels[];

/* An IDX pair of `n` images of 8x8 and their labels under these names for `split`. */
void testing_write_pair(enum data_split split, size_t n, int classes, bool gzip);

/* A config for `dataset` whose data.path is the folder. */
struct config_data testing_config(const char *dataset);

/* Run dataset_open and keep what it writes to stderr. */
enum status testing_open(const struct config_data *cfg, enum data_split split,
                         struct dataset **out);
const char *testing_message(void);

/* Assert that `d` holds `n` images and labels as generated; and that opening them works in silence
 * and leaves nothing allocated. */
void testing_check_contents(const struct dataset *d, size_t n, int classes);
void testing_expect_good(const struct config_data *cfg, enum data_split split, size_t n,
                         int classes);

/*
 * Assert that opening is refused with ST_INPUT and one line that holds every one of the texts,
 * which are separated by '|', and that nothing stays allocated.
 */
void testing_expect_refused(const struct config_data *cfg, enum data_split split,
                            const char *texts);

#endif
