#include "comm/treepack/choose.h"

enum {
    MANY_TREES = 256, /* above, switches are not spread evenly for an exact packing */
    SEEDS = 4,
    MOST_BUNDLED = 8, /* trees per root up to which units are bundled */
};

/* Solve it one way and offer the result if no root has more than `most` trees. */
static enum status try_within(const struct topo *t, const struct solve_request *q, size_t most,
                              struct pareto *p, bool *within)
{
    struct solution s;

    TRY(solve(t, q, &s));
    return pareto_offer(p, &s, most, within);
}

static enum status try_one(const struct topo *t, const struct solve_request *q, struct pareto *p)
{
    bool within;

    return try_within(t, q, SIZE_MAX, p, &within);
}

/* Exact packings over fat pieces of the switches, which take no longer for fine capacities. */
static enum status try_fat(const struct topo *t, struct solve_request q, struct pareto *p)
{
    q.how = (struct pack_how){.order = PACK_SHALLOW};
    q.spread = 1;
    TRY(try_one(t, &q, p));
    q.how.cut = t->n_devices > SOLVE_SMALL;
    q.spread = 4;
    TRY(try_one(t, &q, p));
    q.how = (struct pack_how){.order = PACK_FEW};
    q.spread = 1;
    return try_one(t, &q, p);
}

/* Few devices: all orders, some seeds, and packings that leave a part of the capacity unused. */
static enum status try_many(const struct topo *t, struct solve_request q, struct pareto *p)
{
    static const int keeps[] = {100, 75, 50};

    for (size_t k = 0; k < sizeof keeps / sizeof keeps[0]; k++) {
        q.keep = keeps[k];
        q.how.seed = 0;
        q.how.order = PACK_FEW;
        TRY(try_one(t, &q, p));
        q.how.order = PACK_SHALLOW;
        TRY(try_one(t, &q, p));
        for (q.how.seed = 1; k == 0 && q.how.seed < SEEDS; q.how.seed++) {
            TRY(try_one(t, &q, p));
        }
    }
    q.keep = 100;
    return try_fat(t, q, p);
}

/* `k` equal trees per root, evenly or nearly evenly spread over the switches: shallow. */
static enum status try_equal(const struct topo *t, struct solve_request q, int64_t k,
                             struct pareto *p)
{
    q.fixed_k = k;
    q.spread = k < 4 ? 0 : 4;
    return try_one(t, &q, p);
}

/* One tree per root, and the number from 1 to 3 or `most` that is fastest. */
static enum status try_best_equal(const struct topo *t, struct solve_request q, int64_t most,
                                  struct pareto *p)
{
    int64_t best = 1;
    double best_rate = 0;

    for (int64_t k = 1; k <= most; k = k == 3 && most > 3 ? most : k + 1) {
        double rate;
        q.fixed_k = k;
        TRY(solve_fixed_rate(t, &q, &rate));
        if (rate > best_rate * (1 + 1e-9)) {
            best_rate = rate;
            best = k;
        }
    }
    if (best > 1) {
        TRY(try_equal(t, q, best, p));
    }
    return try_equal(t, q, 1, p);
}

/* A few trees per root, so that a small message pays little. */
static enum status try_fixed(const struct topo *t, const struct solve_request *q, struct pareto *p)
{
    for (int k = 1; k <= 3; k++) {
        TRY(try_equal(t, *q, k, p));
    }
    return ST_OK;
}

static double best_rate(const struct pareto *p)
{
    double best = 0;

    for (size_t i = 0; i < p->n; i++) {
        double rate = p->points[i].rate_bytes_per_s;
        best = rate > best ? rate : best;
    }
    return best;
}

/*
 * More than k units per root, bundled into k trees of unequal weight at most: units[] of them, the
 * fastest first, until some fit.
 */
static enum status try_bundles(const struct topo *t, struct solve_request q, int k,
                               struct pareto *p)
{
    bool used[2 * MOST_BUNDLED] = {false}, within = false;

    for (int tries = 0; tries < k - 1 && !within; tries++) {
        double best = best_rate(p);
        q.fixed_k = 0;
        for (int units = k + 1; units < 2 * k; units++) {
            double rate = 0;
            struct solve_request r = q;
            r.fixed_k = units;
            TRY(solve_fixed_rate(t, &r, &rate));
            if (!used[units] && rate > best * (1 + 1e-9)) {
                best = rate;
                q.fixed_k = units;
            }
        }
        if (q.fixed_k == 0) {
            return ST_OK;
        }
        used[q.fixed_k] = true;
        q.how = (struct pack_how){.order = PACK_WHOLE, .parts = (k + 1) / 2};
        q.spread = k;
        TRY(try_within(t, &q, (size_t)k, p, &within));
        if (!within) {
            q.how.parts = k - 1;
            q.spread = (k + 1) / 2;
            TRY(try_within(t, &q, (size_t)k, p, &within));
        }
    }
    return ST_OK;
}

/* At most q.fixed_k trees per root: the exact packing if it is so small, else what comes near. */
static enum status try_few(const struct topo *t, struct solve_request q, struct pareto *p)
{
    int64_t k = q.fixed_k;
    bool within;

    q.fixed_k = 0;
    q.spread = 1;
    for (int order = PACK_SHALLOW; order <= PACK_WHOLE; order++) {
        q.how = (struct pack_how){.order = (enum pack_order)order};
        TRY(try_within(t, &q, (size_t)k, p, &within));
    }
    q.how = (struct pack_how){.order = PACK_SHALLOW};
    TRY(try_best_equal(t, q, k, p));
    return k >= 2 && k <= MOST_BUNDLED ? try_bundles(t, q, (int)k, p) : ST_OK;
}

static enum status try_all(const struct topo *t, struct solve_request *q, int64_t trees,
                           struct pareto *p)
{
    if (trees == 0) {
        q->fixed_k = 0; /* a closed form, which has one tree per root */
        return try_one(t, q, p);
    }
    if (q->fixed_k > 0) {
        return try_few(t, *q, p);
    }
    if (trees <= MANY_TREES) {
        return t->n_devices > SOLVE_SMALL ? try_one(t, q, p) : try_many(t, *q, p);
    }
    TRY(try_fat(t, *q, p));
    return try_fixed(t, q, p);
}

enum status pareto_create(const struct topo *t, const struct solve_request *q, struct pareto *out)
{
    struct pareto p = {0};
    struct solve_request r = *q;
    int64_t trees = 1;
    enum status st = solve_count(t, q, &trees);

    r.keep = 100;
    r.how = (struct pack_how){.order = PACK_SHALLOW};
    if (st == ST_OK) {
        st = try_all(t, &r, trees, &p);
    }
    if (st != ST_OK) {
        pareto_fini(&p);
        return st;
    }
    *out = p;
    return ST_OK;
}
