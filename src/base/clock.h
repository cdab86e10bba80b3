#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds of the monotonic clock; the origin is arbitrary. */
int64_t clock_now_ns(void);

/* The same in seconds. */
double clock_now_s(void);

/* Nanoseconds that the calling thread has computed; waiting and other programs do not count. */
int64_t clock_thread_ns(void);

#endif
