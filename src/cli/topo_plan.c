/* topo plan and topo check. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/topo_tool.h"
#include "comm/plan_json.h"
#include "topo/plan_verify.h"

static double plan_gbs(const struct plan *p, const struct topo *t)
{
    double seconds = plan_link_seconds_per_byte(p, t);

    return seconds > 0 ? 1e-9 / seconds : 0;
}

/* What nccl-tests calls bus bandwidth, per algorithm bandwidth. */
static double bus_factor(enum collective c, int n)
{
    switch (c) {
    case COLL_ALLREDUCE:
        return 2.0 * (n - 1) / n;
    case COLL_ALLGATHER:
    case COLL_REDUCE_SCATTER:
        return (double)(n - 1) / n;
    case COLL_BROADCAST:
    case COLL_REDUCE:
        break;
    }
    return 1.0;
}

static void print_tree(const struct plan *p, const struct topo *t, size_t i)
{
    const struct tree *tree = &p->trees[i];
    const int *parent = tree->down != NULL ? tree->down : tree->up;

    (void)printf("  %3zu  %-10s %lld/%lld ", i, t->vertices[p->vertex_of[tree->root]].name,
                 (long long)tree->share.num, (long long)tree->share.den);
    for (int v = 0; v < p->n_nodes; v++) {
        if (parent[v] >= 0) {
            (void)printf(" %d%s%d", parent[v], tree->down != NULL ? ">" : "<", v);
        }
    }
    (void)putchar('\n');
}

static void add_loads(const struct plan *p, double *load)
{
    for (size_t i = 0; i < p->n_trees; i++) {
        const struct tree *tree = &p->trees[i];
        double share = (double)tree->share.num / (double)tree->share.den;
        for (int pass = 0; pass < 2; pass++) {
            const struct path *paths = pass == 0 ? tree->up_path : tree->down_path;
            for (int v = 0; paths != NULL && v < p->n_nodes; v++) {
                for (int k = 0; k < paths[v].n; k++) {
                    load[paths[v].links[k]] += share;
                }
            }
        }
    }
}

static enum status print_loads(const struct plan *p, const struct topo *t)
{
    double *load = mem_alloc((size_t)t->n_links, sizeof *load), gbs = plan_gbs(p, t);

    if (load == NULL) {
        return ST_NOMEM;
    }
    add_loads(p, load);
    (void)printf("\n  %-14s %-14s %-8s %10s %10s %6s\n", "from", "to", "kind", "GB/s", "used", "%");
    for (int i = 0; i < t->n_links; i++) {
        const struct topo_link *l = &t->links[i];
        double cap = 1e-9 * (double)l->bytes_per_s;
        (void)printf("  %-14s %-14s %-8s %10.3f %10.3f %6.1f\n", t->vertices[l->from].name,
                     t->vertices[l->to].name, l->kind, cap, load[i] * gbs,
                     100 * load[i] * gbs / cap);
    }
    mem_free(load);
    return ST_OK;
}

/* The depths of the trees, each the deeper of its passes, on average. */
static double mean_depth(const struct plan *p)
{
    struct plan one = *p;
    double sum = 0;

    one.n_trees = 1;
    for (size_t i = 0; i < p->n_trees; i++) {
        one.trees = &p->trees[i];
        sum += plan_depth(&one);
    }
    return p->n_trees > 0 ? sum / (double)p->n_trees : 0;
}

static void print_summary(const struct plan *p, const struct topo *t, double seconds)
{
    double gbs = plan_gbs(p, t);

    (void)printf("topology    %s, %d devices\n", t->name, t->n_devices);
    (void)printf("collective  %s over %s", collective_name(p->collective), p->backend);
    if (p->root >= 0) {
        (void)printf(" from %s", t->vertices[p->vertex_of[p->root]].name);
    }
    (void)printf("\nrate        %.6g GB/s (bus bandwidth %.6g GB/s)\n", gbs,
                 gbs * bus_factor(p->collective, p->n_ranks));
    if (p->bound_bytes_per_s > 0 && gbs > 0) {
        double bound = 1e-9 * p->bound_bytes_per_s;
        (void)printf("bound       %.6g GB/s%s\n", bound,
                     gbs >= bound * (1 - 1e-9) ? ": the plan is optimal" : "");
    }
    if (p->bottleneck != NULL) {
        (void)printf("because     %s\n", p->bottleneck);
    }
    (void)printf("forest      %zu tree%s, depth %d (mean %.2f), planned in %.3f ms\n\n", p->n_trees,
                 p->n_trees == 1 ? "" : "s", plan_depth(p), mean_depth(p), 1e3 * seconds);
}

/* Plan with a backend that may not fit; why[] is then what it said, in place of stderr. */
static enum status plan_quietly(const char *name, const struct topo *t,
                                const struct plan_request *q, struct plan **out, char why[512])
{
    FILE *said = tmpfile();
    int saved = said != NULL ? dup(STDERR_FILENO) : -1;
    enum status st;

    why[0] = '\0';
    if (saved >= 0) {
        (void)dup2(fileno(said), STDERR_FILENO);
    }
    st = plan_create(name, t, q, out);
    if (saved >= 0) {
        (void)dup2(saved, STDERR_FILENO);
        (void)close(saved);
        rewind(said);
        if (fgets(why, 512, said) != NULL) {
            char *begin = strstr(why, ": error: ");
            if (begin != NULL) {
                memmove(why, begin + 9, strlen(begin + 9) + 1);
            }
            why[strcspn(why, "\n")] = '\0';
        }
    }
    if (said != NULL) {
        (void)fclose(said);
    }
    return st;
}

/* "none", and the reason without the advice to choose another backend. */
static void print_refusal(const char *name, char *why)
{
    char *advice = strstr(why, ", choose another backend");

    if (advice != NULL) {
        *advice = '\0';
    }
    if (strncmp(why, "backend ", 8) == 0 && strncmp(why + 8, name, strlen(name)) == 0) {
        why += 8 + strlen(name) + 1;
    }
    (void)printf("  %-14s %10s  %s\n", name, "none:", why);
}

/* What the other backends would reach on the same links. */
static void print_others(const struct plan *p, const struct topo *t, const struct plan_request *q)
{
    char why[512];

    (void)printf("\n  %-14s %10s %6s %6s\n", "backend", "GB/s", "trees", "depth");
    for (size_t i = 0; planner_at(i) != NULL; i++) {
        const char *name = planner_at(i)->name;
        struct plan *other;
        if (strcmp(name, p->backend) == 0 || strncmp(name, "central", 7) == 0) {
            continue;
        }
        if (plan_quietly(name, t, q, &other, why) != ST_OK) {
            print_refusal(name, why);
            continue;
        }
        double gbs = plan_gbs(other, t);
        if (!other->pipelined && plan_depth(other) > 0) {
            gbs /= plan_depth(other); /* a hop begins when the one before it has ended */
        }
        (void)printf("  %-14s %10.3f %6zu %6d\n", name, gbs, other->n_trees, plan_depth(other));
        plan_destroy(other);
    }
}

static enum status print_plan(const struct plan *p, const struct topo *t,
                              const struct plan_request *q, double seconds)
{
    print_summary(p, t, seconds);
    (void)printf("  %3s  %-10s %s  %s\n", "#", "root", "share", "edges");
    for (size_t i = 0; i < p->n_trees && i < 64; i++) {
        print_tree(p, t, i);
    }
    if (p->n_trees > 64) {
        (void)printf("  ... and %zu more, see --json\n", p->n_trees - 64);
    }
    if (t->n_links <= 512) {
        TRY(print_loads(p, t));
    }
    if (t->n_devices <= 64) {
        print_others(p, t, q);
    }
    return ST_OK;
}

enum status topo_plan(const struct topo_options *o)
{
    struct plan_request q = {.root = o->root, .options = o->options, .n_bytes = o->n_bytes};
    struct topo *t;
    struct plan *p = NULL;
    double begin;
    FILE *f;
    enum status st;

    if (!collective_find(o->collective, &q.collective)) {
        return log_fail(ST_BADARG,
                        "unknown collective '%.64s', --collective, use broadcast, "
                        "reduce, allreduce, reduce-scatter or allgather",
                        o->collective);
    }
    TRY(topo_options_open(o, o->operand, &t));
    q.n_ranks = t->n_devices;
    begin = clock_now_s();
    st = plan_create(o->backend, t, &q, &p);
    if (st == ST_OK && o->json) {
        st = topo_out_open(o, &f);
        if (st == ST_OK) {
            enum status written = plan_json_write(p, t, f);
            st = topo_out_close(o, f);
            st = st == ST_OK ? written : st;
        }
    } else if (st == ST_OK) {
        st = print_plan(p, t, &q, clock_now_s() - begin);
    }
    plan_destroy(p);
    topo_destroy(t);
    return st;
}

enum status topo_check_plan(const struct topo_options *o)
{
    struct topo *t;
    enum status st;

    if (o->topology == NULL) {
        return log_fail(ST_BADARG,
                        "--topology is missing: the links that %s is to be checked "
                        "against",
                        o->operand);
    }
    TRY(topo_options_open(o, o->topology, &t));
    st = plan_verify(o->operand, t, stdout);
    topo_destroy(t);
    return st;
}
