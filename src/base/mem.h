#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

#include "base/status.h"

/*
 * Memory for `n` elements of `elem_bytes` each: zeroed, aligned to 128 bytes, blocks of 2 MiB and
 * more to 2 MiB and advised to use huge pages. NULL when out of memory, also where the system would
 * promise more than the machine has and end the process later, when the product overflows, or when
 * a test asked for it. n = 0 gives a valid pointer that may not be read. Free with
 * mem_free.
 */
void *mem_alloc(size_t n, size_t elem_bytes);

/* A copy of `text`; NULL when out of memory. Free with mem_free. */
char *mem_strdup(const char *text);

/* A new string from a format; NULL when out of memory. Free with mem_free. */
char *mem_printf(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* Resize an array that came from mem_alloc, keeping the first `old_n` elements; NULL leaves `p` as
 * it was. */
void *mem_grow(void *p, size_t old_n, size_t new_n, size_t elem_bytes);

void mem_free(void *p);

/* For tests: the k-th allocation from now on fails (k = 1: the next one); 0 switches this off. */
void mem_fail_at(size_t k);

/* For tests: blocks allocated and not yet freed. */
size_t mem_live(void);

/* Bytes now allocated through this interface, and how many more the machine can hold at most. */
size_t mem_live_bytes(void);
size_t mem_room_bytes(void);

#endif
