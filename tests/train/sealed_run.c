/* What was put on streams, and when it runs. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/kernels/kernel_convert.h"
#include "device/kernels/kernel_finite.h"
#include "device/kernels/kernel_fold.h"
#include "device/kernels/kernel_sgd.h"
#include "device/kernels/kernel_store.h"
#include "device/kernels/kernel_vote.h"
#include "sealed_internal.h"

static const struct kernel_place everything = {0, 1, 0, 1};

/* Where memory really is. */
static void *opened(const void *p)
{
    const char *at = p;

    return sealed_world.sealed != NULL && at >= sealed_world.sealed &&
                   at < sealed_world.sealed + SEALED_BYTES
               ? sealed_world.open + (at - sealed_world.sealed)
               : (void *)(uintptr_t)p;
}

static void run_call(const struct call *c)
{
    struct op_io io = c->io;
    const struct op_now *now = opened(io.now);

    sealed_host_ops()->attach(c->lib);
    if (c->fn == NULL) {
        sealed_host_ops()->gradient(c->lib, c->v, io.n, opened(c->y), opened(c->a), opened(c->b),
                                    opened(c->g));
        return;
    }
    for (int k = 0; k < LAYER_MAX_INPUTS; k++) {
        io.x[k] = opened(io.x[k]);
        io.dx[k] = opened(io.dx[k]);
    }
    for (int k = 0; k < LAYER_MAX_PARAMS; k++) {
        io.w[k] = opened(io.w[k]);
        io.dw[k] = opened(io.dw[k]);
    }
    if (!sealed_world.bake) {
        io.step = now->step;
        io.scale = now->scale;
    }
    /* The host's library keeps weights in other layouts, and is told of others by this number. */
    io.weights_version = c->again ? UINT64_MAX - sealed_world.drawn++ : io.weights_version;
    io.y = opened(io.y);
    io.dy[0] = opened(io.dy[0]);
    io.dy[1] = opened(io.dy[1]);
    io.kept = opened(io.kept);
    io.scratch = opened(io.scratch);
    io.state = opened(io.state);
    io.labels = opened(io.labels);
    if (c->is_loss) {
        *io.result = (struct graph_result){0, 0, 0, 0};
    }
    if (c->fn(c->op, &io) != ST_OK) {
        sealed_fault("an operation failed");
    }
}

static void run_fold(const struct device_fold *fold)
{
    struct device_fold f = *fold;

    for (int k = 0; k < f.n_src; k++) {
        f.src[k] = opened(f.src[k]);
    }
    for (int k = 0; k < f.n_dst; k++) {
        f.dst[k] = opened(f.dst[k]);
    }
    kernel_fold(everything, &f, f.dtype, f.redop);
}

static void run_sgd(const struct device_sgd *sgd)
{
    struct device_sgd s = *sgd;

    s.w = opened(s.w);
    s.v = opened(s.v);
    s.g = opened(s.g);
    s.ranges = opened(s.ranges);
    s.skip = opened(s.skip);
    kernel_sgd(everything, &s);
}

static void run_finite(const struct device_finite *finite)
{
    struct device_finite f = *finite;

    f.x = opened(f.x);
    f.flag = opened(f.flag);
    kernel_finite(everything, &f);
}

static void run_store(const struct device_store *store)
{
    struct device_store s = *store;

    s.dst = opened(s.dst);
    kernel_store(everything, &s);
}

static void run_vote(const struct device_vote *vote)
{
    struct device_vote v = *vote;

    v.loss = opened(v.loss);
    v.votes = opened(v.votes);
    v.out = opened(v.out);
    kernel_vote(everything, &v);
}

static void run_convert(const struct device_convert *convert)
{
    struct device_convert c = *convert;

    c.src = opened(c.src);
    c.dst = opened(c.dst);
    kernel_convert(everything, &c);
}

static bool can_run(const struct work *w)
{
    return w->kind != WAIT || w->u.place.event->reached >= w->u.place.number;
}

static void run_first(struct stream *s)
{
    struct work *w = s->first;

    s->first = w->next;
    s->last = s->first == NULL ? NULL : s->last;
    s->n_queued--;
    switch (w->kind) {
    case COPY:
        memmove(opened(w->u.copy.dst), opened(w->u.copy.src), w->u.copy.bytes);
        break;
    case CLEAR:
        memset(opened(w->u.copy.dst), 0, w->u.copy.bytes);
        break;
    case STORE:
        run_store(&w->u.store);
        break;
    case VOTE:
        run_vote(&w->u.vote);
        break;
    case CONVERT:
        run_convert(&w->u.convert);
        break;
    case FINITE:
        run_finite(&w->u.finite);
        break;
    case FOLD:
        run_fold(&w->u.fold);
        break;
    case SGD:
        run_sgd(&w->u.sgd);
        break;
    case RECORD:
        w->u.place.event->reached = w->u.place.number;
        w->u.place.event->reached_s = clock_now_s();
        w->u.place.event->n_uses--;
        break;
    case WAIT:
        w->u.place.event->n_uses--;
        break;
    case CALL:
        run_call(&w->u.call);
        break;
    }
    free(w);
}

static uint32_t draw(void)
{
    return rng_u32(&sealed_world.rng, sealed_world.drawn++);
}

/* With every other seed streams differ in speed, so that some run far ahead of the others. */
static struct stream *choose(struct stream *const *able, size_t n)
{
    const uint64_t slots = UINT64_C(1) << 40; /* numbers that are not drawn otherwise */
    struct stream *fastest = able[0];

    if (!sealed_world.sluggish || draw() % 8 == 0) {
        return able[draw() % n];
    }
    for (size_t i = 1; i < n; i++) {
        if (rng_u32(&sealed_world.rng, slots + (uint64_t)able[i]->slot) >
            rng_u32(&sealed_world.rng, slots + (uint64_t)fastest->slot)) {
            fastest = able[i];
        }
    }
    return fastest;
}

bool sealed_run_any(struct set *set)
{
    struct stream *able[MAX_STREAMS];
    size_t n = 0;

    for (int i = 0; i < MAX_STREAMS; i++) {
        struct stream *s = set->streams[i];
        if (s != NULL && s->first != NULL && can_run(s->first)) {
            able[n++] = s;
        }
    }
    if (n == 0) {
        return false;
    }
    run_first(choose(able, n));
    return true;
}

/* --- putting it there --- */

/* Now and then a device is fast. */
void sealed_put(struct set *set, struct stream *s, const struct work *w)
{
    struct work *copy;

    (void)pthread_mutex_lock(&sealed_world.lock);
    if (sealed_take(s, w)) {
        (void)pthread_mutex_unlock(&sealed_world.lock);
        return;
    }
    copy = malloc(sizeof *copy);
    *copy = *w;
    copy->next = NULL;
    if (w->kind == RECORD) {
        copy->u.place.number = ++w->u.place.event->issued;
        w->u.place.event->n_uses++;
        w->u.place.event->on = s;
        w->u.place.event->n_losses = s->n_losses;
    }
    if (w->kind == WAIT) {
        copy->u.place.number =
            ++sealed_world.waits == sealed_world.drop ? 0 : w->u.place.event->issued;
        w->u.place.event->n_uses++;
    }
    s->n_losses += w->kind == CALL && w->u.call.is_loss;
    if (s->last != NULL) {
        s->last->next = copy;
    } else {
        s->first = copy;
    }
    s->last = copy;
    s->n_queued++;
    for (uint32_t k = draw() % 16; k < 3; k++) {
        (void)sealed_run_any(set);
    }
    (void)pthread_mutex_unlock(&sealed_world.lock);
}
