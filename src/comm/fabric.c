#include "comm/fabric.h"

#include <assert.h>
#include <math.h>

#include "base/mem.h"
#include "comm/fabric_state.h"

enum kind {
    LINK_FREE,
    READY,
    LEFT,
    REACHED, /* the next link of its path */
    ARRIVED,
};

enum status fabric_create(const struct fabric_model *m, size_t n_messages, struct fabric **out)
{
    struct fabric *f = mem_alloc(1, sizeof *f);
    size_t n_links = (size_t)m->topo->n_links;
    enum status st = ST_NOMEM;

    if (f == NULL) {
        return ST_NOMEM;
    }
    f->model = *m;
    f->unused = FABRIC_NONE;
    f->links = mem_alloc(n_links, sizeof *f->links);
    f->changed = mem_alloc(n_links, sizeof *f->changed);
    f->slots = mem_alloc(n_messages, sizeof *f->slots);
    if (f->links != NULL && f->changed != NULL && f->slots != NULL) {
        st = agenda_init(&f->agenda, 2 * n_messages + n_links);
    }
    if (st != ST_OK) {
        fabric_destroy(f);
        return st;
    }
    for (size_t l = 0; l < n_links; l++) {
        f->links[l].first = FABRIC_NONE;
    }
    for (size_t i = n_messages; i-- > 0;) {
        f->slots[i].next = f->unused;
        f->unused = (int)i;
    }
    *out = f;
    return ST_OK;
}

void fabric_destroy(struct fabric *f)
{
    if (f != NULL) {
        agenda_fini(&f->agenda);
        mem_free(f->slots);
        mem_free(f->changed);
        mem_free(f->links);
        mem_free(f);
    }
}

static void expect(struct fabric *f, int64_t when_ps, enum kind kind, int what)
{
    agenda_add(&f->agenda,
               (struct agenda_entry){.when = when_ps, .what = (size_t)what, .kind = kind});
}

void fabric_post(struct fabric *f, const struct fabric_message *m, int64_t when_ps)
{
    int slot = f->unused;
    struct fabric_slot *s = &f->slots[slot];
    size_t n;

    assert(slot != FABRIC_NONE);
    f->unused = s->next;
    (void)program_chunk(m->program, m->tree, m->chunk, &n);
    *s = (struct fabric_slot){.m = *m,
                              .op = &m->program->ops[m->program->trees[m->tree].op + m->op],
                              .bytes = n * dtype_bytes(m->program->spec.dtype),
                              .next = FABRIC_NONE,
                              .with = FABRIC_NONE};
    expect(f, when_ps > f->now_ps ? when_ps : f->now_ps, READY, slot);
}

/* --- Serving --- */

static bool same_path(const struct path *a, const struct path *b)
{
    for (int k = 0; k < a->n && k < b->n; k++) {
        if (a->links[k] != b->links[k]) {
            return false;
        }
    }
    return a->n == b->n;
}

/* Does `b`, which waits for the same link, go along with `a`? */
static bool joins(const struct fabric_slot *a, const struct fabric_slot *b)
{
    return a->m.program->whole && a->m.job == b->m.job && a->hop == 0 && b->hop == 0 &&
           a->op->round == b->op->round && a->op->n_src == b->op->n_src &&
           same_path(a->op->path, b->op->path);
}

/* Take out who is first in line, and those that go along. */
static int take_first(struct fabric *f, struct fabric_link *l)
{
    int first = fabric_pop(f, &l->first), others = l->first;
    struct fabric_slot *s = &f->slots[first];

    if (!s->m.program->whole) {
        return first;
    }
    l->first = FABRIC_NONE;
    while (others != FABRIC_NONE) {
        int slot = fabric_pop(f, &others);
        struct fabric_slot *other = &f->slots[slot];
        if (joins(s, other)) {
            other->with = s->with;
            s->with = slot;
            s->bytes += other->bytes;
        } else {
            fabric_push(f, &l->first, slot);
        }
    }
    return first;
}

/* May the message set out? One always may. */
static bool has_credit(const struct fabric *f, const struct fabric_slot *s)
{
    size_t credit = f->model.credit_bytes;

    return credit == 0 || s->hop > 0 || f->in_flight == 0 || f->in_flight + s->bytes <= credit;
}

int64_t fabric_later(int64_t when_ps, double s)
{
    double ps = s * 1e12;

    return ps < (double)(FABRIC_END_PS - when_ps) ? when_ps + llround(ps) : FABRIC_END_PS;
}

/* `s` on the links of the model. */
static int64_t later(const struct fabric *f, int64_t when_ps, double s)
{
    return fabric_later(when_ps, s * f->model.scale);
}

static void expect_all(struct fabric *f, int64_t when_ps, enum kind kind, int slot)
{
    for (; slot != FABRIC_NONE; slot = f->slots[slot].with) {
        expect(f, when_ps, kind, slot);
    }
}

/* The link is free: let the first in line have it. */
static void serve(struct fabric *f, int link)
{
    const struct topo_link *t = &f->model.topo->links[link];
    struct fabric_link *l = &f->links[link];
    int slot = take_first(f, l);
    struct fabric_slot *s = &f->slots[slot];
    double sum_s = s->op->n_src > 1 ? f->model.reduce_s_per_byte : 0;
    double byte_s = 1 / (double)t->effective_bytes_per_s + sum_s;
    double latency_s = (double)t->latency_ns * 1e-9;

    l->free_ps = later(f, f->now_ps, f->model.startup_s + (double)s->bytes * byte_s);
    expect(f, l->free_ps, LINK_FREE, link);
    s->tail_ps = later(f, l->free_ps > s->tail_ps ? l->free_ps : s->tail_ps, latency_s);
    if (s->hop == 0) {
        f->in_flight += s->bytes;
        expect_all(f, l->free_ps, LEFT, slot);
    }
    if (++s->hop < s->op->path->n) {
        expect(f, later(f, f->now_ps, latency_s), REACHED, slot);
    } else {
        expect_all(f, s->tail_ps, ARRIVED, slot);
    }
}

/* Of the links that are free and waited for, and have changed, the one with the most important
 * message, or FABRIC_NONE. */
static int next_to_serve(struct fabric *f)
{
    int best = FABRIC_NONE, n = 0;

    for (int k = 0; k < f->n_changed; k++) {
        struct fabric_link *l = &f->links[f->changed[k]];
        l->listed = l->free_ps <= f->now_ps && l->first != FABRIC_NONE;
        if (!l->listed) {
            continue;
        }
        f->changed[n++] = f->changed[k];
        if (best == FABRIC_NONE ||
            fabric_before(&f->slots[l->first], &f->slots[f->links[best].first])) {
            best = f->changed[k];
        }
    }
    f->n_changed = n;
    return best;
}

/* Serve whom the links and the credit allow; false if that is nobody. */
static bool serve_all(struct fabric *f)
{
    bool served = false;
    int link;

    f->look = false;
    while ((link = next_to_serve(f)) != FABRIC_NONE) {
        if (!has_credit(f, &f->slots[f->links[link].first])) {
            break; /* those behind must not take what it waits for */
        }
        serve(f, link);
        served = true;
    }
    return served;
}

/* --- Events --- */

/* The message may set out. */
static void begin(struct fabric *f, int slot)
{
    struct fabric_slot *s = &f->slots[slot];

    s->number = f->n_begun++;
    if (s->op->path == NULL || s->op->path->n == 0) {
        f->in_flight += s->bytes;
        expect(f, f->now_ps, LEFT, slot);
        expect(f, f->now_ps, ARRIVED, slot);
    } else {
        fabric_wait(f, slot);
    }
}

/* Something happens now; true if it concerns the caller. */
static bool happen(struct fabric *f, struct agenda_entry e, struct fabric_event *out)
{
    struct fabric_slot *s;

    switch (e.kind) {
    case LINK_FREE:
        fabric_look_at(f, (int)e.what);
        return false;
    case READY:
        begin(f, (int)e.what);
        return false;
    case REACHED:
        fabric_wait(f, (int)e.what);
        return false;
    default:
        break;
    }
    s = &f->slots[e.what];
    *out = (struct fabric_event){e.when, e.kind == ARRIVED, s->m};
    if (e.kind == ARRIVED) {
        size_t n;
        (void)program_chunk(s->m.program, s->m.tree, s->m.chunk, &n);
        f->in_flight -= n * dtype_bytes(s->m.program->spec.dtype);
        f->look = f->look || f->n_changed > 0; /* there is credit again */
        s->next = f->unused;
        f->unused = (int)e.what;
    }
    return true;
}

bool fabric_next(struct fabric *f, int64_t until_ps, struct fabric_event *out)
{
    for (;;) {
        const struct agenda_entry *first = agenda_first(&f->agenda);
        if (first != NULL && first->when <= f->now_ps) {
            if (happen(f, agenda_take(&f->agenda), out)) {
                return true;
            }
        } else if (until_ps <= f->now_ps) {
            return false;
        } else if (!serve_all(f)) { /* all that happens now has happened */
            if (first == NULL || first->when > until_ps) {
                return false;
            }
            f->now_ps = first->when;
        }
    }
}

bool fabric_when(const struct fabric *f, int64_t *when_ps)
{
    const struct agenda_entry *first = agenda_first(&f->agenda);

    if (first != NULL && (!f->look || first->when <= f->now_ps)) {
        *when_ps = first->when;
    } else if (f->look) {
        *when_ps = f->now_ps + 1;
    }
    return f->look || first != NULL;
}
