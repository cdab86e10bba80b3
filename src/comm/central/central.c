/*
 * Central: one node gathers and sums everything and hands the sum back.
 *
 *   P = 4      1   2   3        up: P - 1 messages into the centre,  down: P - 1 out of it
 *               \  |  /         2 (P - 1) n bytes through the centre's link
 *                  0
 *
 * `central` takes rank 0 (the root, where the collective has one) as the centre; `central-host` a
 * relay in the host's memory, to which every rank sends. Reduce-scatter and allgather go through
 * the same centre, a tree for every block: its owner hangs on the other side of the centre.
 * Strategy "all on one GPU" and "all on the CPU" of Dive into Deep Learning, ch. 13.
 */
#include <string.h>

#include "comm/planners.h"
#include "comm/star.h"

static enum status plan_around(struct plan *out, int hub)
{
    int n = out->n_ranks;

    if (out->root >= 0) {
        return star_add(out, out->root, hub, share_make(1, 1));
    }
    if (out->collective == COLL_ALLREDUCE) {
        return star_add(out, hub, hub, share_make(1, 1));
    }
    for (int r = 0; r < n; r++) {
        TRY(star_add(out, r, hub, share_make(1, n)));
    }
    return ST_OK;
}

static enum status central_plan(const struct topo *t, const struct plan_request *q,
                                struct plan *out)
{
    (void)t;
    (void)q;
    return plan_around(out, out->root >= 0 ? out->root : 0);
}

/* The host: a forwarding vertex named cpu... or host..., else the memory of the first CPU device.
 */
static int find_host(const struct topo *t)
{
    for (int v = 0; v < t->n_vertices; v++) {
        const char *name = t->vertices[v].name;
        if (!topo_is_device(t, v) &&
            (strncmp(name, "cpu", 3) == 0 || strncmp(name, "host", 4) == 0)) {
            return v;
        }
    }
    return t->vertices[t->devices[0]].kind == TOPO_CPU ? t->devices[0] : -1;
}

static enum status central_host_plan(const struct topo *t, const struct plan_request *q,
                                     struct plan *out)
{
    int vertex = find_host(t), hub;

    (void)q;
    if (vertex < 0) {
        return plan_refuse(out,
                           "backend central-host needs a host, topology %s has no vertex named "
                           "cpu... or host..., add one with its links",
                           t->name);
    }
    TRY(plan_add_relay(out, vertex, &hub));
    return plan_around(out, hub);
}

const struct planner_ops central_planner = {
    .name = "central",
    .desc = "one star, everything through rank 0",
    .plan = central_plan,
};

const struct planner_ops central_host_planner = {
    .name = "central-host",
    .desc = "one star, everything through the host's memory",
    .plan = central_host_plan,
};
