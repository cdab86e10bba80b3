#include "comm/plan.h"

#include <string.h>

#include "base/mem.h"
#include "comm/share.h"
#include "grid.h"

static const int rank_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 17};
enum {
    N_RANK_COUNTS = sizeof rank_counts / sizeof *rank_counts
};

Test(share, sums_and_floors_are_exact)
{
    struct share s = {0, 1};

    for (int i = 0; i < 7; i++) {
        cr_assert(share_add(s, share_make(2, 14), &s));
    }
    cr_assert(share_equal(s, (struct share){1, 1}));
    cr_assert_eq(share_floor(((size_t)1 << 32) + 3, share_make(2, 3)), 2863311532u);
    cr_assert_eq(share_floor(SIZE_MAX, share_make(1, 1)), SIZE_MAX);
    cr_assert_not(share_add(share_make(1, INT64_MAX), share_make(1, INT64_MAX - 1), &s));
}

Test(plan, every_planner_collective_rank_count_and_root_gives_a_checked_plan)
{
    for (int k = 0; k < N_RANK_COUNTS; k++) {
        struct topo *t = grid_mesh(rank_counts[k]);
        for (size_t i = 0; planner_at(i) != NULL; i++) {
            for (int c = 0; c < GRID_N_COLLECTIVES; c++) {
                bool rooted = c == COLL_BROADCAST || c == COLL_REDUCE;
                for (int root = 0; root < (rooted ? rank_counts[k] : 1); root++) {
                    struct plan *p = grid_plan(planner_at(i)->name, t, (enum collective)c, root);
                    cr_assert_eq(plan_check(p, t), ST_OK);
                    cr_assert_str_eq(p->backend, planner_at(i)->name);
                    plan_destroy(p);
                }
            }
        }
        topo_destroy(t);
        cr_assert_eq(mem_live(), 0);
    }
}

/* What the fullest link of a mesh of P devices carries, in messages. */
static double load(const char *backend, int n_ranks, enum collective c)
{
    struct topo *t = grid_mesh(n_ranks);
    struct plan *p = grid_plan(backend, t, c, 0);
    double s = plan_link_seconds_per_byte(p, t) * 1000;

    plan_destroy(p);
    topo_destroy(t);
    return s;
}

static int depth(const char *backend, int n_ranks)
{
    struct topo *t = grid_mesh(n_ranks);
    struct plan *p = grid_plan(backend, t, COLL_ALLREDUCE, 0);
    int d = plan_depth(p);

    plan_destroy(p);
    topo_destroy(t);
    return d;
}

Test(plan, loads_and_depths_are_those_of_the_algorithms)
{
    cr_assert_float_eq(load("central", 8, COLL_ALLREDUCE), 1.0, 1e-12);
    cr_assert_float_eq(load("onehop", 8, COLL_ALLREDUCE), 2.0 / 8, 1e-12);
    cr_assert_float_eq(load("ring", 8, COLL_ALLREDUCE), 2.0 * 7 / 8, 1e-12);
    cr_assert_float_eq(load("ring", 8, COLL_REDUCE_SCATTER), 7.0 / 8, 1e-12);
    cr_assert_float_eq(load("be", 8, COLL_ALLREDUCE), 2 * 4.0 / 8, 1e-12);
    cr_assert_float_eq(load("lp", 8, COLL_BROADCAST), 1.0, 1e-12);
    cr_assert_eq(depth("central", 7), 1);
    cr_assert_eq(depth("central-host", 7), 1);
    cr_assert_eq(depth("onehop", 7), 1);
    cr_assert_eq(depth("ring", 7), 6);
    cr_assert_eq(depth("lp", 7), 6);
    cr_assert_eq(depth("mst", 8), 3);
    cr_assert_eq(depth("mst", 9), 3);
    cr_assert_eq(depth("be", 8), 3);
    cr_assert_eq(depth("be", 9), 4);
}

Test(plan, unknown_names_ranks_and_roots_are_refused)
{
    struct topo *t = grid_mesh(3);
    struct plan_request q = {.collective = COLL_BROADCAST, .n_ranks = 3, .root = 0};
    struct plan *p = NULL;

    cr_assert_eq(plan_create("rign", t, &q, &p), ST_INPUT);
    cr_assert_eq(plan_create("RING", t, &q, &p), ST_INPUT);
    cr_assert_eq(plan_create("", t, &q, &p), ST_INPUT);
    q.root = 3;
    cr_assert_eq(plan_create("ring", t, &q, &p), ST_INPUT);
    q.root = -1;
    cr_assert_eq(plan_create("ring", t, &q, &p), ST_INPUT);
    q.root = 0;
    q.n_ranks = 4;
    cr_assert_eq(plan_create("ring", t, &q, &p), ST_INPUT);
    cr_assert_null(p);
    topo_destroy(t);
}

Test(plan, a_backend_says_so_where_its_shape_does_not_fit)
{
    struct topo *t = grid_line(4, 10, 0);
    struct plan_request q = {.collective = COLL_ALLREDUCE, .n_ranks = 4};
    struct plan *p = NULL;

    cr_assert_eq(plan_create("ring", t, &q, &p), ST_INPUT);
    cr_assert_eq(plan_create("onehop", t, &q, &p), ST_INPUT);
    cr_assert_eq(plan_create("central-host", t, &q, &p), ST_INPUT);
    cr_assert_null(p);
    for (int root = 0; root < 4; root++) { /* a root inside the line feeds both arms */
        p = grid_plan("lp", t, COLL_BROADCAST, root);
        cr_assert_eq(plan_depth(p), root < 2 ? 3 - root : root);
        plan_destroy(p);
    }
    topo_destroy(t);
}

Test(plan, paths_take_the_fewest_links_then_the_fattest_and_cross_no_device)
{
    struct topo *t = grid_line(3, 10, 0);
    struct plan *p;
    int thin, fat, host;

    cr_assert_eq(topo_add_vertex(t, "thin", TOPO_SWITCH, &thin), ST_OK);
    cr_assert_eq(topo_add_vertex(t, "fat", TOPO_SWITCH, &fat), ST_OK);
    cr_assert_eq(topo_add_vertex(t, "cpu0", TOPO_SWITCH, &host), ST_OK);
    for (int i = 0; i < 3; i++) {
        int ends[] = {thin, fat, host};
        for (int k = 0; k < 3; k++) {
            struct topo_link l = {i, ends[k], k == 1 ? 9 : 5, 0, 0, 1, (char *)"pcie"};
            cr_assert_eq(topo_add_link(t, &l), ST_OK);
            l = (struct topo_link){ends[k], i, k == 1 ? 9 : 5, 0, 0, 1, (char *)"pcie"};
            cr_assert_eq(topo_add_link(t, &l), ST_OK);
        }
    }
    p = grid_plan("central", t, COLL_REDUCE, 0);
    cr_assert_eq(p->trees[0].up_path[1].n, 1);
    cr_assert_eq(p->trees[0].up_path[2].n, 2); /* 2 -> fat -> 0, not over device 1 */
    cr_assert_eq(t->links[p->trees[0].up_path[2].links[0]].to, fat);
    plan_destroy(p);
    p = grid_plan("central-host", t, COLL_ALLREDUCE, 0);
    cr_assert_eq(p->n_nodes, 4);
    cr_assert_eq(p->vertex_of[3], host);
    plan_destroy(p);
    topo_destroy(t);
}

static void check_rings(const char *name, enum collective c, size_t n_trees, double seconds)
{
    struct topo *t;
    struct plan *p;

    cr_assert_eq(topo_open(name, &t), ST_OK);
    p = grid_plan("ring", t, c, 0);
    cr_assert_eq(p->n_trees, n_trees, "%s: %zu trees", name, p->n_trees);
    cr_assert_float_eq(plan_link_seconds_per_byte(p, t) / seconds, 1, 1e-9, "%s: %g", name,
                       plan_link_seconds_per_byte(p, t));
    plan_destroy(p);
    topo_destroy(t);
}

Test(plan, several_rings_share_the_message_by_their_capacity)
{
    char path[] = TEST_SOURCE_DIR "/topologies/dgx1v.topo";

    /* A ring of doubled and one of single links, both ways: 6 lanes of 25 GB/s out of each GPU. */
    check_rings(path, COLL_ALLREDUCE, 8 * 4, 2 * 7.0 / 8 / 150e9);
    check_rings(path, COLL_REDUCE_SCATTER, 8 * 4, 7.0 / 8 / 150e9);
    check_rings(path, COLL_BROADCAST, 4, 1 / 150e9);
}

/* Wrong plans, each one step from a right one. */
static void break_plan(struct plan *p, int how)
{
    struct tree *t = &p->trees[1];
    int leaf = t->root == 0 ? 1 : 0;

    switch (how) {
    case 0:
        t->up[leaf] = leaf;
        break;
    case 1:
        t->down[leaf] = -1;
        break;
    case 2:
        t->down[leaf] = p->n_nodes;
        break;
    case 3:
        t->up[t->root] = leaf;
        break;
    case 4:
        t->share.num = 0;
        break;
    case 5:
        t->share.den++;
        break;
    case 6:
        t->root = p->n_nodes;
        break;
    case 7:
        t->up_path[leaf].n = 0;
        break;
    case 8:
        t->down_path[leaf].links[0]++;
        break;
    case 9:
        t->down_path[leaf].links[0] = -1;
        break;
    case 10:
        p->vertex_of[leaf] = -1;
        break;
    case 11:
        p->collective = COLL_REDUCE;
        break;
    case 12:
        t->up[leaf] = 2, t->up[2] = leaf;
        break;
    case 13:
        p->n_trees--;
        break;
    default:
        cr_assert(false);
    }
}

Test(plan, check_rejects_every_mutation)
{
    for (int how = 0; how < 14; how++) {
        struct topo *t = grid_mesh(4);
        struct plan *p = grid_plan("onehop", t, COLL_ALLREDUCE, 0);
        size_t n_trees = p->n_trees;
        cr_assert_eq(plan_check(p, t), ST_OK);
        break_plan(p, how);
        cr_assert_eq(plan_check(p, t), ST_INTERNAL, "mutation %d", how);
        p->n_trees = n_trees;
        plan_destroy(p);
        topo_destroy(t);
    }
}

Test(plan, check_wants_blocks_in_rank_order)
{
    struct topo *t = grid_mesh(3);
    struct plan *p = grid_plan("ring", t, COLL_REDUCE_SCATTER, 0);
    struct tree first = p->trees[0];

    p->trees[0] = p->trees[1];
    p->trees[1] = first;
    cr_assert_eq(plan_check(p, t), ST_INTERNAL);
    plan_destroy(p);
    topo_destroy(t);
}

Test(plan, every_failing_allocation_is_reported_without_a_leak)
{
    struct topo *t = grid_mesh(5);
    size_t live = mem_live();

    for (size_t i = 0; planner_at(i) != NULL; i++) {
        struct plan_request q = {.collective = COLL_ALLREDUCE, .n_ranks = 5};
        enum status st = ST_NOMEM;
        struct plan *p = NULL;
        for (size_t k = 1; st != ST_OK; k++) {
            mem_fail_at(k);
            st = plan_create(planner_at(i)->name, t, &q, &p);
            mem_fail_at(0);
            cr_assert(st == ST_OK || st == ST_NOMEM);
            cr_assert(st == ST_OK || mem_live() == live, "failure %zu leaks", k);
        }
        plan_destroy(p);
        cr_assert_eq(mem_live(), live);
    }
    topo_destroy(t);
}
