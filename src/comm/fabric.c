#include "comm/fabric.h"

#include <assert.h>
#include <math.h>

#include "base/mem.h"
#include "comm/agenda.h"

enum {
    NONE = -1
};

enum kind {
    LINK_FREE,
    LEFT,
    REACHED, /* the next link of its path */
    ARRIVED,
};

/* A message on its way. */
struct slot {
    struct fabric_message m;
    const struct program_op *op;
    size_t bytes;    /* of all that go as one */
    uint64_t number; /* in the order of posts */
    int64_t tail_ps; /* when the last byte is through the latest link */
    int hop;         /* the link of its path that it waits for */
    int child, next; /* in the heap of a link; the next unused slot */
    int with;        /* a message that goes along */
};

struct link {
    int64_t free_ps;
    int first;   /* of those that wait, the root of a heap */
    bool listed; /* in `changed` */
};

struct fabric {
    struct fabric_model model;
    int64_t now_ps;
    struct link *links;
    int *changed; /* links where somebody may have to be served */
    int n_changed;
    bool look; /* has anything changed since that was looked at? */
    struct slot *slots;
    int unused;
    uint64_t n_posted;
    size_t in_flight; /* bytes */
    struct agenda agenda;
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
    f->unused = NONE;
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
        f->links[l].first = NONE;
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

/* --- Who waits --- */

static bool before(const struct slot *a, const struct slot *b)
{
    if (a->m.turn != b->m.turn) {
        return a->m.turn < b->m.turn;
    }
    if (a->m.chunk != b->m.chunk) {
        return a->m.chunk < b->m.chunk;
    }
    if (a->op->n_after != b->op->n_after) {
        return a->op->n_after > b->op->n_after;
    }
    return a->number < b->number;
}

static void look_at(struct fabric *f, int link)
{
    if (!f->links[link].listed && f->links[link].first != NONE) {
        f->links[link].listed = true;
        f->look = true;
        f->changed[f->n_changed++] = link;
    }
}

static int link_of(const struct slot *s)
{
    return s->op->path->links[s->hop];
}

/* One heap (a pairing heap) of two, which may be empty. */
static int merge(struct fabric *f, int a, int b)
{
    int top = a, below = b;

    if (a == NONE || b == NONE) {
        return a == NONE ? b : a;
    }
    if (before(&f->slots[b], &f->slots[a])) {
        top = b;
        below = a;
    }
    f->slots[below].next = f->slots[top].child;
    f->slots[top].child = below;
    return top;
}

static void wait_for_link(struct fabric *f, int slot)
{
    struct slot *s = &f->slots[slot];
    struct link *l = &f->links[link_of(s)];

    s->child = NONE;
    s->next = NONE;
    l->first = merge(f, l->first, slot);
    look_at(f, link_of(s));
}

/* Take the first out of a heap that is not empty. */
static int pop(struct fabric *f, int *heap)
{
    int top = *heap, rest = f->slots[top].child, pairs = NONE;

    while (rest != NONE) { /* two by two, the last pair first */
        int a = rest, b = f->slots[a].next, pair;
        rest = b == NONE ? NONE : f->slots[b].next;
        f->slots[a].next = NONE;
        if (b != NONE) {
            f->slots[b].next = NONE;
        }
        pair = merge(f, a, b);
        f->slots[pair].next = pairs;
        pairs = pair;
    }
    *heap = NONE;
    while (pairs != NONE) {
        int next = f->slots[pairs].next;
        f->slots[pairs].next = NONE;
        *heap = merge(f, *heap, pairs);
        pairs = next;
    }
    return top;
}

void fabric_post(struct fabric *f, const struct fabric_message *m, int64_t when_ps)
{
    int slot = f->unused;
    struct slot *s = &f->slots[slot];
    size_t n;

    assert(slot != NONE);
    f->unused = s->next;
    f->now_ps = when_ps > f->now_ps ? when_ps : f->now_ps;
    (void)program_chunk(m->program, m->tree, m->chunk, &n);
    *s = (struct slot){.m = *m,
                       .op = &m->program->ops[m->program->trees[m->tree].op + m->op],
                       .bytes = n * dtype_bytes(m->program->spec.dtype),
                       .number = f->n_posted++,
                       .next = NONE,
                       .with = NONE};
    if (s->op->path == NULL || s->op->path->n == 0) {
        f->in_flight += s->bytes;
        expect(f, f->now_ps, LEFT, slot);
        expect(f, f->now_ps, ARRIVED, slot);
    } else {
        wait_for_link(f, slot);
    }
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
static bool joins(const struct slot *a, const struct slot *b)
{
    return a->m.program->whole && a->m.job == b->m.job && a->hop == 0 && b->hop == 0 &&
           a->op->round == b->op->round && a->op->n_src == b->op->n_src &&
           same_path(a->op->path, b->op->path);
}

/* Take out who is first in line, and those that go along. */
static int take_first(struct fabric *f, struct link *l)
{
    int first = pop(f, &l->first), others = l->first;
    struct slot *s = &f->slots[first];

    if (!s->m.program->whole) {
        return first;
    }
    l->first = NONE;
    while (others != NONE) {
        int slot = pop(f, &others);
        struct slot *other = &f->slots[slot];
        if (joins(s, other)) {
            other->with = s->with;
            s->with = slot;
            s->bytes += other->bytes;
        } else {
            other->child = NONE;
            l->first = merge(f, l->first, slot);
        }
    }
    return first;
}

/* May the message set out? One always may. */
static bool has_credit(const struct fabric *f, const struct slot *s)
{
    size_t credit = f->model.credit_bytes;

    return credit == 0 || s->hop > 0 || f->in_flight == 0 || f->in_flight + s->bytes <= credit;
}

static int64_t ps_of(const struct fabric *f, double s)
{
    return (int64_t)llround(s * f->model.scale * 1e12);
}

static void expect_all(struct fabric *f, int64_t when_ps, enum kind kind, int slot)
{
    for (; slot != NONE; slot = f->slots[slot].with) {
        expect(f, when_ps, kind, slot);
    }
}

/* The link is free: let the first in line have it. */
static void serve(struct fabric *f, int link)
{
    const struct topo_link *t = &f->model.topo->links[link];
    struct link *l = &f->links[link];
    int slot = take_first(f, l);
    struct slot *s = &f->slots[slot];
    double sum_s = s->op->n_src > 1 ? f->model.reduce_s_per_byte : 0;
    double byte_s = 1 / (double)t->effective_bytes_per_s + sum_s;
    int64_t latency_ps = ps_of(f, (double)t->latency_ns * 1e-9);

    l->free_ps = f->now_ps + ps_of(f, f->model.startup_s + (double)s->bytes * byte_s);
    expect(f, l->free_ps, LINK_FREE, link);
    s->tail_ps = l->free_ps > s->tail_ps ? l->free_ps : s->tail_ps;
    s->tail_ps += latency_ps;
    if (s->hop == 0) {
        f->in_flight += s->bytes;
        expect_all(f, l->free_ps, LEFT, slot);
    }
    if (++s->hop < s->op->path->n) {
        expect(f, f->now_ps + latency_ps, REACHED, slot);
    } else {
        expect_all(f, s->tail_ps, ARRIVED, slot);
    }
}

/* Of the links that are free and waited for, and have changed, the one with the most important
 * message, or NONE. */
static int next_to_serve(struct fabric *f)
{
    int best = NONE, n = 0;

    for (int k = 0; k < f->n_changed; k++) {
        struct link *l = &f->links[f->changed[k]];
        l->listed = l->free_ps <= f->now_ps && l->first != NONE;
        if (!l->listed) {
            continue;
        }
        f->changed[n++] = f->changed[k];
        if (best == NONE || before(&f->slots[l->first], &f->slots[f->links[best].first])) {
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
    while ((link = next_to_serve(f)) != NONE) {
        if (!has_credit(f, &f->slots[f->links[link].first])) {
            break; /* those behind must not take what it waits for */
        }
        serve(f, link);
        served = true;
    }
    return served;
}

/* --- Events --- */

/* Something happens now; true if it concerns the caller. */
static bool happen(struct fabric *f, struct agenda_entry e, struct fabric_event *out)
{
    struct slot *s;

    if (e.kind == LINK_FREE) {
        look_at(f, (int)e.what);
        return false;
    }
    if (e.kind == REACHED) {
        wait_for_link(f, (int)e.what);
        return false;
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
