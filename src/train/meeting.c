#include "train/meeting.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"

enum {
    SPINS = 4000
}; /* some 20 to 100 us: the usual imbalance of ranks that are about to meet */

/* Deadlines are on the monotonic clock, which nobody sets. */
static int init_condition(pthread_cond_t *c)
{
    pthread_condattr_t attr;
    int error = pthread_condattr_init(&attr);

    if (error != 0) {
        return error;
    }
    error = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    error = error != 0 ? error : pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
    return error;
}

enum status meeting_init(struct meeting *g, int n_threads, bool spin)
{
    g->seen = mem_alloc((size_t)n_threads, sizeof *g->seen);
    if (g->seen == NULL) {
        return ST_NOMEM;
    }
    if (pthread_mutex_init(&g->lock, NULL) != 0) {
        return log_fail(ST_INTERNAL, "cannot make a lock for %d ranks", n_threads);
    }
    if (init_condition(&g->opened) != 0) {
        pthread_mutex_destroy(&g->lock);
        return log_fail(ST_INTERNAL, "cannot make a condition for %d ranks", n_threads);
    }
    atomic_init(&g->arrived, 0);
    atomic_init(&g->round, 0);
    atomic_init(&g->broken, false);
    g->n = (unsigned)n_threads;
    g->spins = spin ? SPINS : 0;
    return ST_OK;
}

void meeting_fini(struct meeting *g)
{
    if (g->n != 0) {
        pthread_cond_destroy(&g->opened);
        pthread_mutex_destroy(&g->lock);
    }
    mem_free(g->seen);
}

unsigned meeting_arrive(struct meeting *g, int index)
{
    unsigned round = atomic_load(&g->round);

    if (atomic_load(&g->broken)) {
        return round; /* who was missing stays known */
    }
    atomic_store(&g->seen[index], round + 1);
    if (atomic_fetch_add(&g->arrived, 1) + 1 == g->n) {
        atomic_store(&g->arrived, 0);
        pthread_mutex_lock(&g->lock);
        atomic_store(&g->round, round + 1);
        pthread_cond_broadcast(&g->opened);
        pthread_mutex_unlock(&g->lock);
    }
    return round;
}

static struct timespec deadline_after(double seconds)
{
    struct timespec t;
    double whole = seconds < 1e9 ? seconds : 1e9;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (time_t)whole;
    t.tv_nsec += (long)((whole - (double)(time_t)whole) * 1e9);
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

static enum status sleep_until_opened(struct meeting *g, unsigned round, double timeout_s)
{
    const struct timespec deadline = deadline_after(timeout_s);
    enum status st = ST_OK;
    int error = 0;

    pthread_mutex_lock(&g->lock);
    while (atomic_load(&g->round) == round && !atomic_load(&g->broken) && error != ETIMEDOUT) {
        error = pthread_cond_timedwait(&g->opened, &g->lock, &deadline);
    }
    if (atomic_load(&g->broken)) {
        st = ST_PEER;
    } else if (atomic_load(&g->round) == round) {
        st = ST_TIMEOUT;
        atomic_store(&g->broken, true);
        pthread_cond_broadcast(&g->opened);
    }
    pthread_mutex_unlock(&g->lock);
    return st;
}

enum status meeting_wait(struct meeting *g, unsigned round, double timeout_s)
{
    for (int i = 0; i < g->spins; i++) {
        if (atomic_load_explicit(&g->round, memory_order_acquire) != round) {
            return atomic_load(&g->broken) ? ST_PEER : ST_OK;
        }
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    return sleep_until_opened(g, round, timeout_s);
}

enum status meeting_pass(struct meeting *g, int index, double timeout_s)
{
    return meeting_wait(g, meeting_arrive(g, index), timeout_s);
}

bool meeting_is_broken(const struct meeting *g)
{
    return atomic_load(&g->broken);
}

const char *meeting_missing(const struct meeting *g, unsigned round, char *out, size_t n_bytes)
{
    size_t used = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < g->n && used + 16 < n_bytes; i++) {
        if (atomic_load(&g->seen[i]) != round + 1) {
            used += (size_t)snprintf(out + used, n_bytes - used, "%s%u", used > 0 ? ", " : "", i);
        }
    }
    return out;
}
