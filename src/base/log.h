#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/status.h"

/*
 * Messages for people, on stderr, one whole line per call and never interleaved:
 *
 *     train: error: cannot open training images, data/train-images-idx3-ubyte, install
 * dataset-fashion-mnist
 *
 * The text is "<what>, <where>, <what to do>" and ends without a newline. The program's name comes
 * first.
 */
void log_error(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_warn(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_note(const char *fmt, ...) PRINTF_LIKE(1, 2); /* nothing is wrong */

/* Log an error and return `st`: `return log_fail(ST_INPUT, "...")`. */
MUST_CHECK enum status log_fail(enum status st, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
