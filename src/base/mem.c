#include "base/mem.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

/*
 * Layout of a block: a 128-byte header that holds the size, then the user's bytes. For huge blocks
 * the header stands in the 128 bytes before a 2 MiB boundary, so that the user's data start on it.
 */
enum {
    ALIGN = 128, /* two lines of the caches: processors fetch them in pairs */
    HUGE_ALIGN = 2 << 20
};

struct header {
    size_t bytes;
    void *base;
};

/* The counters serve tests and the memory report; they are the only process-wide state here. */
static atomic_size_t live_blocks, live_bytes, fail_countdown;

static int injected_failure(void)
{
    size_t left = atomic_load_explicit(&fail_countdown, memory_order_relaxed);

    while (left != 0) {
        if (atomic_compare_exchange_weak(&fail_countdown, &left, left - 1)) {
            return left == 1;
        }
    }
    return 0;
}

void *mem_alloc(size_t n, size_t elem_bytes)
{
    size_t bytes, align, total;
    struct header *h;
    char *base;

    if (__builtin_mul_overflow(n, elem_bytes, &bytes) || bytes > SIZE_MAX / 2 ||
        injected_failure()) {
        return NULL;
    }
    align = bytes >= HUGE_ALIGN ? HUGE_ALIGN : ALIGN;
    if (align == HUGE_ALIGN && bytes > mem_room_bytes()) {
        return NULL;
    }
    total = align + (bytes + align - 1) / align * align;
    base = aligned_alloc(align, total);
    if (base == NULL) {
        return NULL;
    }
    if (align == HUGE_ALIGN) {
        (void)madvise(base + align, total - align,
                      MADV_HUGEPAGE); /* only advice: old kernels refuse it */
    }
    memset(base + align, 0, bytes);
    h = (struct header *)(void *)(base + align - ALIGN);
    h->bytes = bytes;
    h->base = base;
    atomic_fetch_add(&live_blocks, 1);
    atomic_fetch_add(&live_bytes, bytes);
    return base + align;
}

static struct header *header_of(void *p)
{
    return (struct header *)(void *)((char *)p - ALIGN);
}

void mem_free(void *p)
{
    if (p == NULL) {
        return;
    }
    atomic_fetch_sub(&live_blocks, 1);
    atomic_fetch_sub(&live_bytes, header_of(p)->bytes);
    free(header_of(p)->base);
}

void *mem_grow(void *p, size_t old_n, size_t new_n, size_t elem_bytes)
{
    void *q = mem_alloc(new_n, elem_bytes);

    if (q != NULL && p != NULL) {
        memcpy(q, p, (old_n < new_n ? old_n : new_n) * elem_bytes);
        mem_free(p);
    }
    return q;
}

char *mem_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = mem_alloc(bytes, 1);

    if (copy != NULL) {
        memcpy(copy, text, bytes);
    }
    return copy;
}

char *mem_printf(const char *fmt, ...)
{
    va_list args;
    char *text;
    int n;

    va_start(args, fmt);
    n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    text = n < 0 ? NULL : mem_alloc((size_t)n + 1, 1);
    if (text != NULL) {
        va_start(args, fmt);
        (void)vsnprintf(text, (size_t)n + 1, fmt, args);
        va_end(args);
    }
    return text;
}

void mem_fail_at(size_t k)
{
    atomic_store(&fail_countdown, k);
}

size_t mem_live(void)
{
    return atomic_load(&live_blocks);
}

size_t mem_live_bytes(void)
{
    return atomic_load(&live_bytes);
}

size_t mem_room_bytes(void)
{
    const size_t live = atomic_load(&live_bytes);
    struct sysinfo s;
    size_t machine;

    if (sysinfo(&s) != 0) {
        return SIZE_MAX; /* the system decides */
    }
    machine = (size_t)(s.totalram + s.totalswap) * s.mem_unit;
    return machine > live ? machine - live : 0;
}
