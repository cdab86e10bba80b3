#include "comm/fabric_state.h"

bool fabric_before(const struct fabric_slot *a, const struct fabric_slot *b)
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

void fabric_look_at(struct fabric *f, int link)
{
    if (!f->links[link].listed && f->links[link].first != FABRIC_NONE) {
        f->links[link].listed = true;
        f->look = true;
        f->changed[f->n_changed++] = link;
    }
}

/* One pairing heap of two, which may be empty. */
static int merge(struct fabric *f, int a, int b)
{
    int top = a, below = b;

    if (a == FABRIC_NONE || b == FABRIC_NONE) {
        return a == FABRIC_NONE ? b : a;
    }
    if (fabric_before(&f->slots[b], &f->slots[a])) {
        top = b;
        below = a;
    }
    f->slots[below].next = f->slots[top].child;
    f->slots[top].child = below;
    return top;
}

void fabric_push(struct fabric *f, int *heap, int slot)
{
    f->slots[slot].child = FABRIC_NONE;
    f->slots[slot].next = FABRIC_NONE;
    *heap = merge(f, *heap, slot);
}

void fabric_wait(struct fabric *f, int slot)
{
    const struct fabric_slot *s = &f->slots[slot];
    int link = s->op->path->links[s->hop];

    fabric_push(f, &f->links[link].first, slot);
    fabric_look_at(f, link);
}

int fabric_pop(struct fabric *f, int *heap)
{
    int top = *heap, rest = f->slots[top].child, pairs = FABRIC_NONE;

    while (rest != FABRIC_NONE) { /* two by two, the last pair first */
        int a = rest, b = f->slots[a].next, pair;
        rest = b == FABRIC_NONE ? FABRIC_NONE : f->slots[b].next;
        f->slots[a].next = FABRIC_NONE;
        if (b != FABRIC_NONE) {
            f->slots[b].next = FABRIC_NONE;
        }
        pair = merge(f, a, b);
        f->slots[pair].next = pairs;
        pairs = pair;
    }
    *heap = FABRIC_NONE;
    while (pairs != FABRIC_NONE) {
        int next = f->slots[pairs].next;
        f->slots[pairs].next = FABRIC_NONE;
        *heap = merge(f, *heap, pairs);
        pairs = next;
    }
    return top;
}
