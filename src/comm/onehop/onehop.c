/*
 * One hop: the message is cut in P parts, and rank i is the centre of part i.
 *
 *   P = 3    part 0: 1 -> 0 <- 2    part 1: 0 -> 1 <- 2    part 2: 0 -> 2 <- 1    and back
 *
 * Allreduce is a direct reduce-scatter and allgather: 2 rounds, every rank sends and receives
 * 2 (P - 1)/P n bytes. Broadcast scatters the parts to their centres first, reduce collects them
 * from there last. The "one-hop" trees of Blink (sec. 3.5), the partitioned parameter server of
 * Dive into Deep Learning.
 */
#include "comm/planners.h"
#include "comm/star.h"

static enum status onehop_plan(const struct topo *t, const struct plan_request *q, struct plan *out)
{
    (void)t;
    for (int i = 0; i < q->n_ranks; i++) {
        TRY(star_add(out, out->root >= 0 ? out->root : i, i, share_make(1, q->n_ranks)));
    }
    return ST_OK;
}

const struct planner_ops onehop_planner = {
    .name = "onehop",
    .desc = "P stars, rank i sums part i of the message",
    .plan = onehop_plan,
};
