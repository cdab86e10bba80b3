/*
 * Where the halves of a reduce-scatter and an allgather reach the bound of a partition, which they
 * do on all machines that are built of equal boxes, that is the plan. Else the programme of
 * programme.c divides the links between the passes, if it is small enough.
 */
#include "comm/treepack/coupled.h"

#include "base/mem.h"
#include "comm/treepack/partition.h"
#include "comm/treepack/programme.h"

enum {
    MAX_ARCS = 160
};

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

/*
 * Unequal directions without the programme: a reduce-scatter at rate R and an allgather at rate G,
 * one after the other on every link, make R G / (R + G).
 */
static enum status both_phases(const struct topo *t, const struct solve_request *q,
                               struct solution *s)
{
    struct solve_request part = *q;
    struct solution up = {0}, down = {0};
    enum status st;

    part.kind = SOLVE_ALLGATHER;
    part.reversed = false;
    st = solve(t, &part, &down);
    part.reversed = true;
    if (st == ST_OK) {
        st = solve(t, &part, &up);
    }
    if (st == ST_OK) {
        struct frac a = frac_make(down.rate.den, down.rate.num);
        struct frac b = frac_make(up.rate.den, up.rate.num);
        struct frac sum = frac_make(a.num * b.den + b.num * a.den, a.den * b.den);
        s->rate = frac_make(sum.den, sum.num);
        s->down_l = down.down_l;
        s->down = down.down;
        s->up_l = up.up_l;
        s->up = up.up;
        down.down_l = up.up_l = NULL;
        packing_init(&down.down, s->down.n_dev);
        packing_init(&up.up, s->up.n_dev);
    }
    solution_fini(&up);
    solution_fini(&down);
    return st;
}

enum status coupled_solve(const struct topo *t, const struct solve_request *q, bool symmetric,
                          struct solution *s)
{
    bool done = false;
    struct bound gather;
    struct frac half;

    TRY(partition_bound(s->whole, &s->bound));
    TRY(bound_allgather(s->whole, &gather));
    half = frac_make(gather.rate.num, 2 * gather.rate.den);
    bound_fini(&gather);
    if (symmetric && frac_compare(half, s->bound.rate) >= 0) {
        return halves(t, q, s);
    }
    if (s->whole->m <= MAX_ARCS && q->fixed_k == 0) {
        TRY(programme_solve(q, s, &done));
    }
    if (done) {
        return ST_OK;
    }
    return symmetric ? halves(t, q, s) : both_phases(t, q, s);
}
