#include "train/meeting.h"

#include "base/log.h"

enum {
    SPINS = 4000
}; /* some 20 to 100 us: the usual imbalance of ranks that are about to meet */

enum status meeting_init(struct meeting *g, int n_threads, bool spin)
{
    if (pthread_mutex_init(&g->lock, NULL) != 0) {
        return log_fail(ST_INTERNAL, "cannot make a lock for %d ranks", n_threads);
    }
    if (pthread_cond_init(&g->opened, NULL) != 0) {
        pthread_mutex_destroy(&g->lock);
        return log_fail(ST_INTERNAL, "cannot make a condition for %d ranks", n_threads);
    }
    atomic_init(&g->arrived, 0);
    atomic_init(&g->round, 0);
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
}

unsigned meeting_arrive(struct meeting *g)
{
    unsigned round = atomic_load(&g->round);

    if (atomic_fetch_add(&g->arrived, 1) + 1 == g->n) {
        atomic_store(&g->arrived, 0);
        pthread_mutex_lock(&g->lock);
        atomic_store(&g->round, round + 1);
        pthread_cond_broadcast(&g->opened);
        pthread_mutex_unlock(&g->lock);
    }
    return round;
}

void meeting_wait(struct meeting *g, unsigned round)
{
    for (int i = 0; i < g->spins; i++) {
        if (atomic_load_explicit(&g->round, memory_order_acquire) != round) {
            return;
        }
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    pthread_mutex_lock(&g->lock);
    while (atomic_load(&g->round) == round) {
        pthread_cond_wait(&g->opened, &g->lock);
    }
    pthread_mutex_unlock(&g->lock);
}

void meeting_pass(struct meeting *g)
{
    meeting_wait(g, meeting_arrive(g));
}
