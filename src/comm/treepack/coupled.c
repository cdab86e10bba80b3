#include "comm/treepack/coupled.h"

#include "base/log.h"
#include "base/mem.h"
#include "comm/treepack/partition.h"

/* Reduce-scatter up and allgather down over mirrored trees, half of every link for each. */
static enum status halves(const struct topo *t, const struct solve_request *q, struct solution *s)
{
    struct solve_request gather = *q;
    struct solution g = {0};
    int *rev = mem_alloc((size_t)t->n_links, sizeof *rev);
    enum status st = rev == NULL ? ST_NOMEM : ST_OK;

    gather.kind = SOLVE_ALLGATHER;
    gather.reversed = false;
    if (st == ST_OK) {
        (void)solve_mirror_links(t, rev);
        st = solve(t, &gather, &g);
    }
    if (st == ST_OK) {
        st = solve_mirror(g.down_l, rev, &s->up_l);
    }
    if (st == ST_OK) {
        s->down_l = g.down_l;
        g.down_l = NULL;
        s->down = g.down;
        packing_init(&g.down, s->down.n_dev);
        s->rate = frac_make(g.rate.num, 2 * g.rate.den);
        st = packing_copy(&s->down, &s->up);
    }
    solution_fini(&g);
    mem_free(rev);
    return st;
}

enum status coupled_solve(const struct topo *t, const struct solve_request *q, bool symmetric,
                          struct solution *s)
{
    TRY(partition_bound(s->whole, &s->bound));
    if (!symmetric) {
        return log_fail(ST_UNSUPPORTED, "treepack: allreduce needs links of equal rates in both "
                                        "directions; use reduce and broadcast");
    }
    return halves(t, q, s);
}
