/*
 * Ring: for each of the P blocks a chain around the ring that ends at the block's owner, and one
 * that starts there.
 *
 *   P = 3, ring 0-1-2, block 0      up: 1 -> 2 -> 0        down: 0 -> 1 -> 2
 *
 * 2 (P - 1) steps, every link carries 2 (P-1)/P n bytes. The ring is a Hamiltonian cycle over the
 * fattest links. With a root one chain around the ring carries the whole message in chunks.
 * Source: Patarasu and Yuan 2009.
 */
#include "base/mem.h"
#include "comm/planners.h"
#include "comm/route.h"

/* The chain of the block owned by the rank at place `at` of the ring. */
static enum status add_chain(struct plan *p, const int *order, int at, struct share share)
{
    int n = p->n_ranks;
    struct tree *tree;

    TRY(plan_add_tree(p, order[at], share, &tree));
    for (int k = 1; k < n; k++) {
        int v = order[(at + k) % n];
        if (tree->up != NULL) {
            tree->up[v] = order[(at + k + 1) % n];
        }
        if (tree->down != NULL) {
            tree->down[v] = order[(at + k - 1) % n];
        }
    }
    return ST_OK;
}

static int place_of(const int *order, int n, int rank)
{
    int at = 0;

    while (at < n - 1 && order[at] != rank) {
        at++;
    }
    return at;
}

static enum status add_chains(struct plan *p, const int *order)
{
    int n = p->n_ranks;

    if (p->root >= 0) {
        return add_chain(p, order, place_of(order, n, p->root), share_make(1, 1));
    }
    for (int r = 0; r < n; r++) {
        TRY(add_chain(p, order, place_of(order, n, r), share_make(1, n)));
    }
    return ST_OK;
}

static enum status ring_plan(const struct topo *t, const struct plan_request *q, struct plan *out)
{
    int *order = mem_alloc((size_t)q->n_ranks, sizeof *order);
    bool found = false;
    enum status st = order == NULL ? ST_NOMEM : route_chain(t, -1, true, false, order, &found);

    if (st == ST_OK && !found) {
        st = plan_refuse(out,
                         "backend ring needs a cycle through all %d devices, topology %s has none, "
                         "choose another backend",
                         q->n_ranks, t->name);
    }
    if (st == ST_OK) {
        st = add_chains(out, order);
    }
    mem_free(order);
    return st;
}

const struct planner_ops ring_planner = {
    .name = "ring",
    .desc = "a chain around the ring for each of the P blocks",
    .plan = ring_plan,
};
