#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Strict conversions of text that people typed. The whole text must be the number (blanks around it
 * are fine); "4x", "", "0,1" and values out of range are refused. The decimal point is a point in
 * every locale. They return false and leave `out` alone when the text is not such a number.
 */
bool text_to_i64(const char *text, int64_t *out);
bool text_to_double(const char *text, double *out); /* finite only */

/* Bytes: an integer and an optional suffix K, M or G (binary), in either case. */
bool text_to_bytes(const char *text, uint64_t *out);

/* yes/no, true/false, on/off, 1/0 in any case. */
bool text_to_bool(const char *text, bool *out);

/* Levenshtein distance, capped at 64; ASCII case is ignored. */
size_t text_distance(const char *a, const char *b);

/*
 * The one of the `n` names that is most like `text`, or NULL if none is near enough to be meant
 * (distance at most 1 + length/3).
 */
const char *text_nearest(const char *text, const char *const *names, size_t n);

/* `bytes` as "1.5 GiB", "640 KiB", "12 B" into `out`, which is also returned. */
const char *text_bytes(uint64_t bytes, char out[32]);

#endif
