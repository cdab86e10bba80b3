/* Passes as graphs of the device: one for each stretch in which hooks put nothing on the stream. */
#include "base/log.h"
#include "base/mem.h"
#include "nn/graph_internal.h"

enum status graph_capture_init(struct graph *g)
{
    if (!g->args.capture || g->args.place->ops->capture_begin == NULL) {
        return ST_OK;
    }
    g->capture.all = mem_alloc(g->args.n_batches * 2 * CAPTURE_PASSES, sizeof *g->capture.all);
    return g->capture.all != NULL ? ST_OK : ST_NOMEM;
}

void graph_capture_fini(struct graph *g)
{
    const struct device_place *p = g->args.place;
    struct capture *c = &g->capture;

    for (size_t i = 0; c->all != NULL && i < g->args.n_batches * 2 * CAPTURE_PASSES; i++) {
        for (size_t k = 0; k < c->all[i].n; k++) {
            p->ops->graph_destroy(p->set, c->all[i].stretches[k].graph);
        }
        mem_free(c->all[i].stretches);
    }
    mem_free(c->all);
}

size_t graph_n_captured(const struct graph *g)
{
    size_t n = 0;

    for (size_t i = 0; g->capture.all != NULL && i < g->args.n_batches * 2 * CAPTURE_PASSES; i++) {
        n += g->capture.all[i].n;
    }
    return n;
}

void graph_capture_begin(struct graph *g, enum capture_pass pass)
{
    const size_t slot = (size_t)(1 - g->stage.next); /* of the batch: graphs keep addresses */
    struct capture *c = &g->capture;
    struct replay *r;

    c->pass = NULL;
    if (c->all == NULL) {
        return;
    }
    r = &c->all[(g->pass.batch * 2 + slot) * CAPTURE_PASSES + pass];
    if (r->state == REPLAY_WARM || r->state == REPLAY_READY) {
        c->pass = r;
    }
    c->taking = r->state == REPLAY_WARM;
    c->open = false;
    c->calls = c->at = 0;
    r->state = r->state == REPLAY_NEW ? REPLAY_WARM : r->state;
}

enum status graph_capture_call(struct graph *g, bool *issue)
{
    const struct device_place *p = g->args.place;
    struct capture *c = &g->capture;

    *issue = c->pass == NULL || c->taking;
    if (c->pass == NULL) {
        return ST_OK;
    }
    c->calls++;
    if (!c->open && c->taking) {
        TRY(p->ops->capture_begin(p->set, p->stream));
    }
    c->open = true;
    return ST_OK;
}

/* The calls since the last cut become a stretch. */
static enum status take_stretch(struct graph *g)
{
    const struct device_place *p = g->args.place;
    struct replay *r = g->capture.pass;
    struct stretch *grown;
    void *graph = NULL;

    TRY(p->ops->capture_end(p->set, p->stream, &graph));
    grown = mem_grow(r->stretches, r->n, r->n + 1, sizeof *grown);
    if (grown == NULL) {
        p->ops->graph_destroy(p->set, graph);
        return ST_NOMEM;
    }
    r->stretches = grown;
    r->stretches[r->n++] = (struct stretch){graph, g->capture.calls};
    return ST_OK;
}

static enum status fail_cuts(const struct graph *g)
{
    return log_fail(ST_INTERNAL,
                    "a pass of %s was captured with %zu cuts and has others now, after %zu calls, "
                    "set [device] graph = off and report this",
                    net_name(g->args.net), g->capture.pass->n, g->capture.calls);
}

enum status graph_cut(struct graph *g)
{
    const struct device_place *p = g->args.place;
    struct capture *c = &g->capture;

    if (c->pass == NULL || !c->open) {
        return ST_OK;
    }
    c->open = false;
    if (c->taking) {
        TRY(take_stretch(g));
    }
    if (c->at == c->pass->n || c->pass->stretches[c->at].end != c->calls) {
        return fail_cuts(g);
    }
    return p->ops->graph_launch(p->set, c->pass->stretches[c->at++].graph, p->stream);
}

enum status graph_capture_end(struct graph *g, enum status st)
{
    const struct device_place *p = g->args.place;
    struct capture *c = &g->capture;
    void *unused = NULL;

    if (c->pass == NULL) {
        return st;
    }
    if (st == ST_OK) {
        st = graph_cut(g);
        st = st == ST_OK && c->at != c->pass->n ? fail_cuts(g) : st;
    } else if (c->taking && c->open && p->ops->capture_end(p->set, p->stream, &unused) == ST_OK) {
        p->ops->graph_destroy(p->set, unused);
    }
    c->pass->state = st == ST_OK ? REPLAY_READY : REPLAY_FAILED;
    c->pass = NULL;
    return st;
}
