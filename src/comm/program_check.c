#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/bits.h"
#include "comm/program.h"
#include "comm/share.h"

/*
 * The check knows nothing of how programs are made. Every buffer of every node holds one symbolic
 * element: how often each rank's contribution is in it, and how often it was divided. It runs a
 * tree's operations in their order, after having proved that the dependencies force the same
 * outcome in every order.
 */
struct check {
    const struct program *p;
    const struct plan *plan;
    size_t tree;
    int *value;    /* [n_nodes, N_BUFS, n_ranks + 1]: counts, then divisions; -1: never written */
    int *result;   /* [n_ranks + 1] */
    size_t n_sunk; /* results that went to the sink */
    uint64_t *before; /* [n_ops] rows: what is known to happen before each operation */
    size_t row;
};

static enum status bad(const struct check *c, const char *what, size_t where)
{
    return log_fail(ST_INTERNAL,
                    "program of %s (%s, %d ranks, %zu elements) is wrong: %s, tree %zu, %zu",
                    c->plan->backend, collective_name(c->p->collective), c->p->n_ranks,
                    c->p->spec.n, what, c->tree, where);
}

static const struct program_op *op_at(const struct check *c, size_t i)
{
    return &c->p->ops[c->p->trees[c->tree].op + i];
}

/* Chunks must tile the tree's part of the message, and the trees the message. */
static enum status check_tiling(struct check *c)
{
    size_t at = 0, n;

    for (c->tree = 0; c->tree < c->p->n_trees; c->tree++) {
        const struct program_tree *t = &c->p->trees[c->tree];
        if (t->offset != at || (t->n > 0 && t->chunk == 0) ||
            (t->n > 0 && t->n_chunks != (t->n - 1) / t->chunk + 1)) {
            return bad(c, "the trees do not tile the message", at);
        }
        for (size_t k = 0; k<t->n_chunks; k += t->n_chunks> 2 ? t->n_chunks - 1 : 1) {
            size_t first = program_chunk(c->p, c->tree, k, &n);
            if (n == 0 || first < at || first + n > at + t->n ||
                (k + 1 == t->n_chunks && first + n != at + t->n)) {
                return bad(c, "a chunk reaches over its tree", k);
            }
        }
        at += t->n;
    }
    return at == c->p->spec.n ? ST_OK : bad(c, "the trees do not cover the message", at);
}

/* Who happens before whom by the lists alone; the lists must agree with the counters. */
static enum status close_order(struct check *c)
{
    size_t n_nodes = (size_t)c->p->n_nodes, n_ops = c->p->trees[c->tree].n_ops;

    memset(c->before, 0, n_ops * c->row * sizeof *c->before);
    for (size_t i = 0; i < n_ops; i++) {
        const struct program_op *op = op_at(c, i);
        uint64_t *mine = c->before + i * c->row;
        int waits = op->n_posts;
        for (int k = 0; k < op->n_posts; k++) {
            bits_set(mine, (size_t)c->p->ints[op->posts + (size_t)k]);
        }
        for (size_t j = 0; j < n_ops; j++) {
            const struct program_op *other = op_at(c, j);
            for (int k = 0; k < other->n_next; k++) {
                if (c->p->ints[other->next + (size_t)k] != (int)i) {
                    continue;
                }
                if (j >= i) {
                    return bad(c, "an operation waits for a later one", i);
                }
                waits++;
                bits_set(mine, n_nodes + j);
                bits_or(mine, c->before + j * c->row, c->row);
            }
        }
        if (waits != op->n_deps) {
            return bad(c, "an operation waits for more or fewer than will tell it", i);
        }
    }
    return ST_OK;
}

static bool touches(const struct check *c, const struct program_op *op, struct program_ref r,
                    bool writes_only)
{
    for (size_t k = writes_only ? op->dst : op->src; k < op->dst + (size_t)op->n_dst; k++) {
        if (c->p->refs[k].node == r.node && c->p->refs[k].buf == r.buf) {
            return true;
        }
    }
    return false;
}

static bool lists_rank(const struct check *c, const struct program_op *op, int rank)
{
    for (int k = 0; k < op->n_ranks; k++) {
        if (c->p->ints[op->ranks + (size_t)k] == rank) {
            return true;
        }
    }
    return false;
}

static enum status check_conflicts(struct check *c, size_t i)
{
    const struct program_op *op = op_at(c, i);
    const uint64_t *mine = c->before + i * c->row;

    for (size_t k = op->src; k < op->dst + (size_t)op->n_dst; k++) {
        struct program_ref r = c->p->refs[k];
        bool write = k >= op->dst;
        if (r.buf == BUF_TMP && c->p->trees[c->tree].n > 0 && !c->p->has_tmp[r.node]) {
            return bad(c, "an operation touches a buffer that the node does not have", i);
        }
        if (!bits_get(mine, (size_t)r.node)) {
            return bad(c, "an operation touches a buffer that was not given", i);
        }
        if (r.node < c->p->n_ranks && !lists_rank(c, op, r.node)) {
            return bad(c, "an operation hides whose memory it touches", i);
        }
        for (size_t j = 0; j < i; j++) {
            if (touches(c, op_at(c, j), r, !write) && !bits_get(mine, (size_t)c->p->n_nodes + j)) {
                return bad(c, "two operations that conflict are not ordered", i);
            }
        }
    }
    return ST_OK;
}

static int *value_of(const struct check *c, int node, enum program_buf buf)
{
    size_t width = (size_t)c->p->n_ranks + 1;

    return c->value + ((size_t)node * N_BUFS + (size_t)buf) * width;
}

static void set_initial(const struct check *c, const struct tree *t)
{
    int n_ranks = c->p->n_ranks;
    bool one = c->p->collective == COLL_BROADCAST || c->p->collective == COLL_ALLGATHER;

    for (int v = 0; v < c->p->n_nodes; v++) {
        for (int b = 0; b < N_BUFS; b++) {
            int *x = value_of(c, v, (enum program_buf)b);
            bool given = b == BUF_IN && v < n_ranks && (!one || v == t->root);
            memset(x, 0, ((size_t)n_ranks + 1) * sizeof *x);
            x[n_ranks] = given ? 0 : -1;
            if (given) {
                x[v] = 1;
            }
        }
    }
}

/* What a rank of the tree must hold in its result at the end, or the sink gets. */
static bool expected(const struct check *c, const struct tree *t, const int *x)
{
    bool sum = collective_has_up(c->p->collective);
    int n_ranks = c->p->n_ranks;
    bool divide = sum && c->p->spec.redop == REDOP_MEAN && n_ranks > 1;

    for (int r = 0; r < n_ranks; r++) {
        if (x[r] != (sum || r == t->root ? 1 : 0)) {
            return false;
        }
    }
    return x[n_ranks] == (divide ? 1 : 0);
}

static enum status execute(struct check *c, const struct tree *t, size_t i)
{
    const struct program_op *op = op_at(c, i);
    int n_ranks = c->p->n_ranks;

    memset(c->result, 0, ((size_t)n_ranks + 1) * sizeof *c->result);
    for (size_t k = op->src; k < op->dst; k++) {
        const int *x = value_of(c, c->p->refs[k].node, c->p->refs[k].buf);
        if (x[n_ranks] < 0) {
            return bad(c, "an operation reads what nobody wrote", i);
        }
        for (int r = 0; r <= n_ranks; r++) {
            c->result[r] += x[r];
        }
    }
    c->result[n_ranks] += op->finish;
    if (op->sinks) {
        c->n_sunk++;
        return expected(c, t, c->result)
                   ? ST_OK
                   : bad(c, "the sink does not get each contribution exactly once", i);
    }
    for (size_t k = op->dst; k < op->dst + (size_t)op->n_dst; k++) {
        memcpy(value_of(c, c->p->refs[k].node, c->p->refs[k].buf), c->result,
               ((size_t)n_ranks + 1) * sizeof *c->result);
    }
    return ST_OK;
}

static enum status check_results(struct check *c, const struct tree *t)
{
    enum program_buf out = c->p->spec.in_place ? BUF_IN : BUF_OUT;

    for (int v = 0; v < c->p->n_ranks; v++) {
        bool gets = collective_has_down(c->p->collective) || v == t->root;
        const int *in = value_of(c, v, BUF_IN);
        if (gets && !expected(c, t, value_of(c, v, out))) {
            return bad(c, "a rank does not end with each contribution exactly once", (size_t)v);
        }
        for (int r = 0; !(gets && c->p->spec.in_place) && r < c->p->n_ranks; r++) {
            bool kept = in[c->p->n_ranks] < 0 || in[r] == (r == v);
            if (!kept) {
                return bad(c, "a rank's contribution is overwritten", (size_t)v);
            }
        }
    }
    return ST_OK;
}

static enum status check_sink(struct check *c)
{
    return c->n_sunk == 1 ? ST_OK : bad(c, "the sink does not get one result", c->n_sunk);
}

static enum status check_trees(struct check *c)
{
    TRY(check_tiling(c));
    for (c->tree = 0; c->tree < c->p->n_trees; c->tree++) {
        const struct tree *t = &c->plan->trees[c->tree];
        TRY(close_order(c));
        set_initial(c, t);
        c->n_sunk = 0;
        for (size_t i = 0; i < c->p->trees[c->tree].n_ops; i++) {
            TRY(check_conflicts(c, i));
            TRY(execute(c, t, i));
        }
        TRY(c->p->sink.take != NULL ? check_sink(c) : check_results(c, t));
    }
    return ST_OK;
}

enum status program_check(const struct program *p, const struct plan *plan)
{
    size_t n = (size_t)p->n_nodes, width = (size_t)p->n_ranks + 1, most = 0;
    struct check c = {.p = p, .plan = plan};
    enum status st = ST_NOMEM;

    for (size_t i = 0; i < p->n_trees; i++) {
        most = p->trees[i].n_ops > most ? p->trees[i].n_ops : most;
    }
    c.row = bits_words(n + most);
    c.value = mem_alloc(n * N_BUFS * width, sizeof *c.value);
    c.result = mem_alloc(width, sizeof *c.result);
    c.before = mem_alloc(most * c.row, sizeof *c.before);
    if (c.value != NULL && c.result != NULL && c.before != NULL) {
        st = check_trees(&c);
    }
    mem_free(c.value);
    mem_free(c.result);
    mem_free(c.before);
    return st;
}
