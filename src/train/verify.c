/* [debug] verify_every: the sums against those of an independent, plain addition. */
#include "train/verify.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "train/step.h"

bool verify_sums(const float *const *contributions, int n_ranks, const float *sums, size_t offset,
                 size_t n, struct verify_finding *out)
{
    for (size_t i = offset; i < offset + n; i++) {
        float want = contributions[0][i];
        double size = fabs((double)want), bound;
        for (int r = 1; r < n_ranks; r++) {
            want += contributions[r][i];
            size += fabs((double)contributions[r][i]);
        }
        bound = 1.001 * (n_ranks - 1) * FLT_EPSILON * size;
        if (!isfinite(want) && !isfinite(sums[i])) {
            continue;
        }
        if (!(fabs((double)sums[i] - want) <= bound)) { /* also when one is not a number */
            *out = (struct verify_finding){
                .bad = true, .element = i, .got = sums[i], .want = want, .bound = bound};
            return false;
        }
    }
    return true;
}

bool verify_same(const float *mine, const float *other, size_t offset, size_t n,
                 struct verify_finding *out)
{
    if (memcmp(mine + offset, other + offset, n * sizeof *mine) == 0) {
        return true;
    }
    for (size_t i = offset; i < offset + n; i++) {
        if (memcmp(&mine[i], &other[i], sizeof *mine) != 0) {
            *out = (struct verify_finding){
                .bad = true, .ranks_differ = true, .element = i, .got = mine[i], .want = other[i]};
            break;
        }
    }
    return false;
}

bool step_is_verified(const struct step *s)
{
    const int64_t every = s->r->t->cfg->debug.verify_every;

    return every > 0 && (s->number + 1) % (uint64_t)every == 0;
}

void step_keep_gradients(struct step *s, size_t b)
{
    struct rank *r = s->r;
    const struct comm_bucket *bucket = &r->t->buckets[b];

    if (step_is_verified(s)) {
        step_fail(s, arena_copy(r, r->kept + bucket->offset, r->sums + bucket->offset, bucket->n));
    }
}

static void check(struct step *s)
{
    const struct trainer *t = s->r->t;
    struct verify_finding *found = &s->mine->finding;

    if (t->rooted && s->r->index != 0) {
        return; /* only rank 0 has the sums */
    }
    for (size_t b = 0; b < t->n_buckets; b++) {
        const struct comm_bucket *bucket = &t->buckets[b];
        if (!verify_sums(t->kept, t->n_ranks, s->r->seen, bucket->offset, bucket->n, found) ||
            !verify_same(s->r->seen, t->ranks[0].seen, bucket->offset, bucket->n, found)) {
            return;
        }
    }
}

/* The sums are in on this rank. Two meetings: all sums and copies are there; all have looked. */
void step_verify(struct step *s)
{
    struct rank *r = s->r;
    bool all_in = true;

    if (step_is_verified(s) && !r->t->shared) {
        step_meet(s); /* where streams wait for sums, they are no meeting of the threads */
    }
    if (step_is_verified(s) && r->place != NULL && r->status == ST_OK) {
        step_fail(s, arena_get(r, r->seen, r->sums, r->t->n));
        step_fail(s, comm_check(r->t->comm));
    }
    s->mine->sums_in = r->status == ST_OK;
    if (!step_is_verified(s) || !loop_meet(r, "the check of the sums")) {
        return;
    }
    for (int k = 0; k < r->t->n_ranks; k++) {
        all_in = all_in && s->all[k].sums_in;
    }
    if (all_in) {
        check(s);
    }
    if (!loop_meet(r, "the check of the sums")) {
        return;
    }
    for (int k = 0; k < r->t->n_ranks; k++) {
        s->skip |= s->all[k].finding.bad; /* the weights stay those before the step */
    }
}

/* The parameter in which an element of the arena lies; what is between two belongs to the first. */
static int param_at(const struct graph *g, size_t element)
{
    int i = 0;

    while (i + 1 < graph_n_params(g) && graph_param(g, i + 1).offset <= element) {
        i++;
    }
    return i;
}

enum status step_conclude_sums(const struct step *s)
{
    const struct trainer *t = s->r->t;

    for (int r = 0; r < t->n_ranks; r++) {
        const struct verify_finding *f = &s->all[r].finding;
        int i;
        if (!f->bad) {
            continue;
        }
        i = param_at(s->r->graph, f->element);
        return s->r->index != 0
                   ? ST_INTERNAL
                   : log_fail(ST_INTERNAL,
                              "wrong sum in step %" PRIu64 " on rank %d, bucket %d (%s), layer "
                              "%s, element %zu of parameter %d: %.9g and not %.9g as %s (allowed "
                              "difference %.3g), check the memory of this machine and report it "
                              "with the run's config.ini",
                              s->number + 1, r, t->bucket_of[i], t->labels[t->bucket_of[i]],
                              graph_param_name(s->r->graph, i),
                              f->element - graph_param(s->r->graph, i).offset, i, (double)f->got,
                              (double)f->want, f->ranks_differ ? "on rank 0" : "central adds it up",
                              f->bound);
    }
    return ST_OK;
}
