/* Playing: what was written down, on real memory, in orders that streams and events allow. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "device/kernels/kernel_fold.h"
#include "recorder_internal.h"

/*
 * Commands take time: a copy or a fold reads all its sources when it starts and writes its
 * destinations when it finishes, and what other streams do lies before, between or behind.
 */
static void start(struct item *it)
{
    static const struct kernel_place everything = {0, 1, 0, 1};
    struct device_fold f = it->u.fold;

    if (it->kind == COPY) {
        it->between = malloc(it->u.copy.bytes + 1);
        memcpy(it->between, it->u.copy.src, it->u.copy.bytes);
    } else if (it->kind == FOLD) {
        it->between = malloc(f.n * kernel_fold_elem_bytes(f.dtype) + 1);
        f.dst[0] = it->between;
        f.n_dst = 1;
        kernel_fold(everything, &f, f.dtype, f.redop);
    }
}

static void finish(struct item *it)
{
    const struct device_fold *f = &it->u.fold;

    it->done = true;
    if (it->kind == COPY) {
        memcpy(it->u.copy.dst, it->between, it->u.copy.bytes);
    } else if (it->kind == FOLD) {
        for (int m = 0; m < f->n_dst; m++) {
            memcpy(f->dst[m], it->between, f->n * kernel_fold_elem_bytes(f->dtype));
        }
    } else if (it->kind == CALL) {
        it->u.call.fn(it->u.call.ctx, it->u.call.a, it->u.call.b);
    }
    free(it->between);
    it->between = NULL;
}

static void run(struct item *it)
{
    start(it);
    finish(it);
}

static void reset(struct recorder *r)
{
    for (int i = 0; i < r->n_blocks; i++) {
        memset(r->blocks[i].p, 0x4b, r->blocks[i].bytes); /* as floats: 1.3e7 */
    }
    for (int i = 0; i < r->n; i++) {
        r->items[i].done = false;
    }
    for (int i = 0; i < r->n_streams; i++) {
        r->streams[i].head = 0;
    }
}

static bool may_run(const struct recorder *r, const struct stream *s)
{
    const struct item *it;

    if (s->head == s->n) {
        return false;
    }
    it = &r->items[s->items[s->head]];
    return it->kind != WAIT || it->off || it->bound == NONE || r->items[it->bound].done;
}

/* A stream that may run its next command. All alike: the first behind a random place; sluggish: the
 * fastest one. */
static int pick(const struct recorder *r, uint64_t random, bool sluggish)
{
    int start = (int)(random % (uint64_t)r->n_streams), best = NONE;

    for (int k = 0; k < r->n_streams; k++) {
        int i = (start + k) % r->n_streams;
        if (may_run(r, &r->streams[i]) &&
            (best == NONE || r->streams[i].speed > r->streams[best].speed)) {
            best = i;
            if (!sluggish) {
                break;
            }
        }
    }
    return best;
}

void recorder_play(struct recorder *r, uint64_t seed, bool sluggish)
{
    struct rng speeds = rng_make(seed, RNG_TEST, 0), starts = rng_make(seed, RNG_TEST, 1);

    reset(r);
    for (int i = 0; i < r->n_streams; i++) {
        r->streams[i].speed = rng_u32(&speeds, (uint64_t)i);
    }
    for (uint64_t left = (uint64_t)r->n, step = 0; left > 0; step++) {
        int i = pick(r, rng_u64(&starts, step), sluggish);
        assert(i != NONE && "the streams wait for each other");
        struct item *it = &r->items[r->streams[i].items[r->streams[i].head]];
        if (it->between == NULL && (it->kind == COPY || it->kind == FOLD)) {
            start(it);
        } else {
            finish(it);
            r->streams[i].head++;
            left--;
        }
    }
}

static int nth_wait(const struct recorder *r, size_t w)
{
    for (int i = 0; i < r->n; i++) {
        if (r->items[i].kind == WAIT && r->items[i].bound != NONE && w-- == 0) {
            return i;
        }
    }
    return NONE;
}

size_t recorder_n_waits(const struct recorder *r)
{
    size_t n = 0;

    while (nth_wait(r, n) != NONE) {
        n++;
    }
    return n;
}

static bool is_work(const struct item *it)
{
    return it->kind != WAIT && it->kind != RECORD;
}

/* Mark in `after` item i and everything that comes after it. */
static void mark_after(const struct recorder *r, int i, bool *after)
{
    after[i] = true;
    for (int k = i + 1; k < r->n; k++) { /* the order of issue is a legal one */
        const struct item *it = &r->items[k];
        after[k] = (it->prev != NONE && after[it->prev]) ||
                   (it->kind == WAIT && !it->off && it->bound != NONE && after[it->bound]);
    }
}

static void run_marked(struct recorder *r, const bool *mark, bool value)
{
    for (int i = 0; i < r->n; i++) {
        if (mark[i] == value && !r->items[i].done && r->items[i].between == NULL) {
            run(&r->items[i]);
        }
    }
}

/* Item `target` starts as early as possible: after what it must follow, before all else; and
 * finishes at once, or as late as possible: after all that need not follow it. */
static void play_early(struct recorder *r, int target, bool finish_late)
{
    bool *before = calloc((size_t)r->n, sizeof *before),
         *after = calloc((size_t)r->n, sizeof *after);

    reset(r);
    recorder_mark_before(r->items, target, before);
    mark_after(r, target, after);
    before[target] = false;
    run_marked(r, before, true);
    start(&r->items[target]);
    if (finish_late && r->items[target].between != NULL) {
        after[target] = true;
        run_marked(r, after, false);
    }
    finish(&r->items[target]);
    run_marked(r, after, false);
    run_marked(r, after, true);
    free(before);
    free(after);
}

bool recorder_play_without(struct recorder *r, size_t w, bool (*check)(void *ctx), void *ctx)
{
    int wait_item = nth_wait(r, w);
    bool *behind = calloc((size_t)r->n, sizeof *behind), found = false;

    mark_after(r, wait_item, behind);
    r->items[wait_item].off = true;
    for (int i = wait_item + 1; i < r->n && !found; i++) {
        for (int late = 0; behind[i] && is_work(&r->items[i]) && late < 2 && !found; late++) {
            play_early(r, i, late == 1);
            found = check(ctx);
        }
    }
    r->items[wait_item].off = false;
    free(behind);
    return found;
}
