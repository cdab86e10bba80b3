#include "train/agree.h"

#include <inttypes.h>

#include "base/log.h"
#include "train/digest.h"
#include "train/state.h"

static const char *const names[AGREE_ITEMS] = {"configuration", "model", "start weights",
                                               "buckets of gradients", "communication plan"};

static uint64_t model_digest(const struct graph *g)
{
    uint64_t h = digest_word(DIGEST_EMPTY, graph_arena_n(g));

    for (int i = 0; i < graph_n_params(g); i++) {
        struct graph_param p = graph_param(g, i);
        h = digest_text(h, graph_param_name(g, i));
        h = digest_word(h, p.offset);
        h = digest_word(h, p.n);
    }
    return h;
}

static uint64_t buckets_digest(const struct trainer *t)
{
    uint64_t h = digest_word(DIGEST_EMPTY, t->n_buckets);

    for (size_t b = 0; b < t->n_buckets; b++) {
        h = digest_text(h, t->labels[b]);
        h = digest_word(h, t->buckets[b].offset);
        h = digest_word(h, t->buckets[b].n);
    }
    return h;
}

static uint64_t parents_digest(uint64_t h, const int *parent, int n)
{
    h = digest_word(h, parent != NULL);
    for (int v = 0; parent != NULL && v < n; v++) {
        h = digest_word(h, (uint64_t)(int64_t)parent[v]);
    }
    return h;
}

static uint64_t plan_digest(uint64_t h, const struct plan *p)
{
    h = digest_text(h, p->backend);
    h = digest_word(h, p->n_trees);
    h = digest_word(h, p->chunk_bytes);
    for (size_t i = 0; i < p->n_trees; i++) {
        h = digest_word(h, (uint64_t)p->trees[i].root);
        h = digest_word(h, (uint64_t)p->trees[i].share.num);
        h = digest_word(h, (uint64_t)p->trees[i].share.den);
        h = parents_digest(h, p->trees[i].up, p->n_nodes);
        h = parents_digest(h, p->trees[i].down, p->n_nodes);
    }
    return h;
}

static uint64_t plans_digest(const struct trainer *t)
{
    uint64_t h = DIGEST_EMPTY;

    for (size_t b = 0; b < t->n_buckets; b++) {
        h = plan_digest(h, comm_plan(t->comm, b));
        h = t->rooted ? plan_digest(h, comm_plan(t->sharing, b)) : h;
    }
    return h;
}

enum status agree_fill(struct rank *r, struct agree_record *out)
{
    const struct trainer *t = r->t;

    out->digests[AGREE_CONFIG] = config_digest(t->cfg);
    out->digests[AGREE_MODEL] = model_digest(r->graph);
    out->digests[AGREE_BUCKETS] = buckets_digest(t);
    out->digests[AGREE_PLAN] = plans_digest(t);
    return arena_digest(r, r->weights, t->n, &out->digests[AGREE_WEIGHTS]);
}

enum status agree_check(const struct agree_record *all, int n, int rank)
{
    bool equal = true;

    for (int r = 1; r < n; r++) {
        for (int i = 0; i < AGREE_ITEMS; i++) {
            bool same = all[r].digests[i] == all[0].digests[i];
            equal = equal && same;
            if (!same && r == rank) {
                log_error("rank %d has another %s than rank 0, digest %016" PRIx64
                          " and not %016" PRIx64 ", start all ranks with the same program and "
                          "config",
                          r, names[i], all[r].digests[i], all[0].digests[i]);
            }
        }
    }
    return equal ? ST_OK : ST_INPUT;
}

bool agree_run(struct rank *r)
{
    struct trainer *t = r->t;

    rank_fail(r, agree_fill(r, &t->agreements[r->index]));
    if (!loop_meet(r, "the comparison of what the ranks start with")) {
        return false;
    }
    if (r->status != ST_OK) {
        return false;
    }
    r->status = agree_check(t->agreements, t->n_ranks, r->index);
    return r->status == ST_OK;
}
