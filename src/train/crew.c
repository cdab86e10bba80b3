#include "train/crew.h"

#include <locale.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

enum {
    POLL_NS = 50000000
}; /* how often a run is asked whether it is hopeless */

struct member {
    struct crew *crew;
    int rank;
    bool busy;
    pthread_t thread;
};

struct crew {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    locale_t c_locale;
    struct member *members;
    int n;       /* threads started */
    unsigned id; /* of the current job */
    int working; /* threads that have not finished it */
    bool quit;
    void (*job)(void *ctx, int rank);
    void *ctx;
};

static void *member_main(void *arg)
{
    struct member *m = arg;
    struct crew *c = m->crew;
    unsigned seen = 0;

    (void)uselocale(c->c_locale);
    pthread_mutex_lock(&c->lock);
    for (;;) {
        while (c->id == seen && !c->quit) {
            pthread_cond_wait(&c->changed, &c->lock);
        }
        if (c->quit) {
            break;
        }
        seen = c->id;
        pthread_mutex_unlock(&c->lock);
        c->job(c->ctx, m->rank);
        pthread_mutex_lock(&c->lock);
        m->busy = false;
        if (--c->working == 0) {
            pthread_cond_broadcast(&c->changed);
        }
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static enum status start(struct crew *c, int rank, const cpu_set_t *cores)
{
    struct member *m = &c->members[rank];
    pthread_attr_t attr;
    int error;

    *m = (struct member){.crew = c, .rank = rank};
    if (pthread_attr_init(&attr) != 0) {
        return log_fail(ST_INTERNAL, "cannot start the thread of rank %d", rank);
    }
    error = cores == NULL ? 0 : pthread_attr_setaffinity_np(&attr, sizeof *cores, cores);
    if (error == 0) {
        error = pthread_create(&m->thread, &attr, member_main, m);
    }
    pthread_attr_destroy(&attr);
    if (error != 0) {
        return log_fail(ST_INTERNAL,
                        "cannot start the thread of rank %d, error %d, allow more "
                        "threads or use fewer devices",
                        rank, error);
    }
    c->n++;
    return ST_OK;
}

enum status crew_create(int n, const cpu_set_t *cores, struct crew **out)
{
    struct crew *c = mem_alloc(1, sizeof *c);
    enum status st = ST_OK;

    if (c == NULL) {
        return ST_NOMEM;
    }
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    c->c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    c->members = mem_alloc((size_t)n, sizeof *c->members);
    if (c->members == NULL || c->c_locale == (locale_t)0) {
        st = ST_NOMEM;
    }
    for (int r = 0; st == ST_OK && r < n; r++) {
        st = start(c, r, cores == NULL ? NULL : &cores[r]);
    }
    if (st != ST_OK) {
        crew_destroy(c);
        return st;
    }
    *out = c;
    return ST_OK;
}

void crew_destroy(struct crew *c)
{
    if (c == NULL) {
        return;
    }
    pthread_mutex_lock(&c->lock);
    c->quit = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    for (int r = 0; r < c->n; r++) {
        pthread_join(c->members[r].thread, NULL);
    }
    if (c->c_locale != (locale_t)0) {
        freelocale(c->c_locale);
    }
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    mem_free(c->members);
    mem_free(c);
}

static void begin(struct crew *c, void (*job)(void *ctx, int rank), void *ctx)
{
    c->job = job;
    c->ctx = ctx;
    c->working = c->n;
    c->id++;
    for (int r = 0; r < c->n; r++) {
        c->members[r].busy = true;
    }
    pthread_cond_broadcast(&c->changed);
}

void crew_run(struct crew *c, void (*job)(void *ctx, int rank), void *ctx)
{
    pthread_mutex_lock(&c->lock);
    begin(c, job, ctx);
    while (c->working > 0) {
        pthread_cond_wait(&c->changed, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
}

static void wait_a_moment(struct crew *c)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += POLL_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_timedwait(&c->changed, &c->lock, &until);
}

enum status crew_run_until(struct crew *c, void (*job)(void *ctx, int rank), void *ctx,
                           bool (*hopeless)(void *ctx), double grace_s)
{
    double since = 0;
    bool given_up = false;

    pthread_mutex_lock(&c->lock);
    begin(c, job, ctx);
    while (c->working > 0 && !given_up) {
        wait_a_moment(c);
        if (since == 0 && hopeless(ctx)) {
            since = clock_now_s();
        }
        given_up = since != 0 && clock_now_s() - since > grace_s;
    }
    given_up = c->working > 0;
    pthread_mutex_unlock(&c->lock);
    return given_up ? ST_TIMEOUT : ST_OK;
}

bool crew_is_busy(struct crew *c, int rank)
{
    bool busy;

    pthread_mutex_lock(&c->lock);
    busy = c->members[rank].busy;
    pthread_mutex_unlock(&c->lock);
    return busy;
}

void crew_run_here(struct crew *c, void (*job)(void *ctx, int rank), void *ctx)
{
    locale_t before = uselocale(c->c_locale);

    job(ctx, 0);
    (void)uselocale(before);
}
