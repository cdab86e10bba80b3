#ifndef DATA_DATAFILE_H
#define DATA_DATAFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/*
 * A data file, plain or compressed with gzip; which one is told by its first bytes, not by its
 * name. Errors name the file; they are logged here. All functions: ST_INPUT for a missing, damaged
 * or unsuitable file, ST_IO when reading fails, ST_NOMEM.
 */
struct datafile {
    struct gzFile_s *gz;
    char *path;
    const char *what;    /* "training images" */
    uint64_t disk_bytes; /* size of the file itself */
    uint64_t n_read;     /* bytes of contents read so far */
};

/*
 * Open `name` in `folder` (an absolute name stands alone). When there is no such file, its other
 * spellings are tried: with or without ".gz", and "-idx" for ".idx". `*f` must be zeroed; close it
 * also after an error. `what` must outlive it.
 */
MUST_CHECK enum status datafile_open(struct datafile *f, const char *folder, const char *name,
                                     const char *what, const char *remedy);
void datafile_close(struct datafile *f);

bool datafile_is_plain(const struct datafile *f);

/* Read up to `n` bytes; `*got` is smaller only where the contents end, whole or cut short. */
MUST_CHECK enum status datafile_read(struct datafile *f, void *buf, size_t n, size_t *got);

/*
 * Refuse a plain file whose size is not `bytes`, before anything is allocated for it. The length of
 * a compressed one shows when it is read. `contents` says what the bytes are: "3 images of 28x28".
 */
MUST_CHECK enum status datafile_expect(const struct datafile *f, uint64_t bytes,
                                       const char *contents);

/*
 * Read the next `n` bytes into new memory; what is allocated grows with what is really there. The
 * contents must be `total` bytes in all, for the message when they end before.
 */
MUST_CHECK enum status datafile_load(struct datafile *f, size_t n, uint64_t total,
                                     const char *contents, uint8_t **out);

/* Read to the end and check that the contents are `total` bytes, and their checksum if compressed.
 */
MUST_CHECK enum status datafile_finish(struct datafile *f, uint64_t total, const char *contents);

#endif
