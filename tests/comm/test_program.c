#include "comm/program.h"

#include <string.h>

#include "base/mem.h"
#include "chaos.h"
#include "grid.h"

static void try_program(const struct plan *plan, const struct program_spec *spec, uint64_t seed)
{
    struct program *p = grid_program(plan, spec);
    struct grid_memory m;

    cr_assert_eq(program_check(p, plan), ST_OK);
    grid_memory_init(&m, p);
    cr_assert_eq(chaos_run(p, m.bases, seed), p->n_instances);
    cr_assert_eq(grid_memory_wrong(&m, plan->root), 0,
                 "%s %s %s P=%d n=%zu chunk=%zu in_place=%d fuse=%d root=%d seed=%zu",
                 plan->backend, collective_name(plan->collective), redop_name(spec->redop),
                 plan->n_ranks, spec->n, spec->chunk_bytes, spec->in_place, spec->fuse, plan->root,
                 (size_t)seed);
    grid_memory_fini(&m);
    program_destroy(p);
}

static void try_sizes(const struct plan *plan)
{
    size_t n_ranks = (size_t)plan->n_ranks;
    size_t sizes[] = {0, 1, n_ranks - 1, n_ranks, n_ranks + 1, 127, 128, 129, 1000, 8191};
    size_t chunks[] = {4, 4096, 1 << 20};
    uint64_t seed = 1;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t k = 0; k < 3; k++) {
            for (int mode = 0; mode < 4; mode++) {
                struct program_spec spec = {DTYPE_F32,       REDOP_SUM, mode & 1,
                                            (mode & 2) != 0, sizes[i],  chunks[k]};
                try_program(plan, &spec, seed++);
            }
        }
    }
}

static void try_backend(const char *backend, int n_ranks)
{
    struct topo *t = grid_mesh(n_ranks);

    for (int c = 0; c < GRID_N_COLLECTIVES; c++) {
        bool rooted = c == COLL_BROADCAST || c == COLL_REDUCE;
        for (int root = 0; root < (rooted ? n_ranks : 1); root += 3) {
            struct plan *plan = grid_plan(backend, t, (enum collective)c, root);
            try_sizes(plan);
            plan_destroy(plan);
        }
    }
    topo_destroy(t);
}

/* The part of the registry whose number leaves `part` when divided by 4: separate tests run side by
 * side. */
static void try_backends(size_t part)
{
    for (size_t b = part; b < part + 4 || planner_at(b) != NULL; b += 4) {
        for (int k = 0; planner_at(b) != NULL && k < GRID_N_RANKS; k++) {
            try_backend(planner_at(b)->name, grid_ranks[k]);
        }
    }
    cr_assert_eq(mem_live(), 0);
}

/* Every backend, collective, rank count, size and chunk, in random orders. */
Test(program, grid_is_exact_part_0)
{
    try_backends(0);
}

Test(program, grid_is_exact_part_1)
{
    try_backends(1);
}

Test(program, grid_is_exact_part_2)
{
    try_backends(2);
}

Test(program, grid_is_exact_part_3)
{
    try_backends(3);
}

Test(program, the_other_operations_are_exact)
{
    for (size_t b = 0; planner_at(b) != NULL; b++) {
        for (int n_ranks = 1; n_ranks <= 6; n_ranks++) {
            struct topo *t = grid_mesh(n_ranks);
            enum collective cs[] = {COLL_REDUCE, COLL_ALLREDUCE, COLL_REDUCE_SCATTER};
            for (int k = 0; k < 3 * 3 * 4; k++) {
                struct plan *plan = grid_plan(planner_at(b)->name, t, cs[k % 3], n_ranks / 2);
                struct program_spec spec = {
                    DTYPE_F32, (enum redop)(REDOP_MEAN + k / 3 % 3), k / 9 % 2, k / 18, 523, 400};
                try_program(plan, &spec, (uint64_t)k);
                plan_destroy(plan);
            }
            topo_destroy(t);
        }
    }
}

/* `n` orders of one program, numbered from `seed`. */
static void try_orders(const struct plan *plan, const struct program_spec *spec, uint64_t seed,
                       int n)
{
    struct program *p = grid_program(plan, spec);
    struct grid_memory m;

    grid_memory_init(&m, p);
    for (int k = 0; k < n; k++) {
        grid_memory_fill(&m);
        (void)chaos_run(p, m.bases, seed + (uint64_t)k);
        cr_assert_eq(grid_memory_wrong(&m, plan->root), 0, "%s %s P=%d seed %zu", plan->backend,
                     collective_name(plan->collective), plan->n_ranks, (size_t)seed + (size_t)k);
    }
    grid_memory_fini(&m);
    program_destroy(p);
}

/* For each backend: 5 collectives, 5 rank counts, 4 ways to run and 100 orders each. */
Test(program, ten_thousand_random_orders_change_nothing)
{
    const int ranks[] = {2, 3, 5, 8, 11};

    for (size_t b = 0; planner_at(b) != NULL; b++) {
        for (int k = 0; k < 5 * GRID_N_COLLECTIVES; k++) {
            struct topo *t = grid_mesh(ranks[k / GRID_N_COLLECTIVES]);
            enum collective c = (enum collective)(k % GRID_N_COLLECTIVES);
            struct plan *plan = grid_plan(planner_at(b)->name, t, c, 1);
            for (int mode = 0; mode < 4; mode++) {
                struct program_spec spec = {DTYPE_F32,       REDOP_SUM, mode & 1,
                                            (mode & 2) != 0, 37,        16};
                try_orders(plan, &spec, (uint64_t)(k * 4 + mode) * 100, 100);
            }
            plan_destroy(plan);
            topo_destroy(t);
        }
    }
    cr_assert_eq(mem_live(), 0);
}

/* Under the address sanitizer so many elements take minutes. */
#ifdef __SANITIZE_ADDRESS__
static const size_t many = 105659;
#else
static const size_t many = 10556587;
#endif

/* In and out of place take turns, as do roots. */
static void try_large(int n_ranks)
{
    struct topo *t = grid_mesh(n_ranks);
    uint64_t seed = 0;

    for (size_t b = 0; planner_at(b) != NULL; b++) {
        for (int c = 0; c < GRID_N_COLLECTIVES; c++, seed++) {
            struct plan *plan =
                grid_plan(planner_at(b)->name, t, (enum collective)c, c % 2 == 0 ? 0 : n_ranks - 1);
            struct program_spec spec = {DTYPE_F32, REDOP_SUM, seed % 2 == 0, true, many, 0};
            try_program(plan, &spec, seed);
            plan_destroy(plan);
        }
    }
    topo_destroy(t);
}

Test(program, many_elements_are_exact_on_2_ranks)
{
    try_large(2);
}

Test(program, many_elements_are_exact_on_5_ranks)
{
    try_large(5);
}

Test(program, many_elements_are_exact_on_8_ranks)
{
    try_large(8);
}

/* The mean of 1, 2, ..., P is (P+1)/2 to the last bit, in whatever order it was added up. */
Test(program, means_of_rank_numbers_are_exact_on_every_rank_up_to_28)
{
    for (size_t b = 0; planner_at(b) != NULL; b++) {
        for (int n_ranks = 1; n_ranks <= 28; n_ranks++) {
            struct topo *t = grid_mesh(n_ranks);
            struct plan *plan = grid_plan(planner_at(b)->name, t, COLL_ALLREDUCE, -1);
            struct program_spec spec = {DTYPE_F32, REDOP_MEAN, true, n_ranks % 2 == 0, 61, 32};
            struct program *p = grid_program(plan, &spec);
            float want = (float)(n_ranks + 1) / 2;
            struct grid_memory m;
            grid_memory_init(&m, p);
            for (int r = 0; r < n_ranks; r++) {
                for (size_t i = 0; i < spec.n; i++) {
                    m.in[r][GRID_GUARD + i] = (float)(r + 1);
                }
            }
            (void)chaos_run(p, m.bases, (uint64_t)n_ranks);
            for (int r = 0; r < n_ranks; r++) {
                for (size_t i = 0; i < spec.n; i++) {
                    cr_assert_eq(memcmp(&m.out[r][GRID_GUARD + i], &want, sizeof want), 0,
                                 "%s P=%d rank %d", plan->backend, n_ranks, r);
                }
            }
            grid_memory_fini(&m);
            program_destroy(p);
            plan_destroy(plan);
            topo_destroy(t);
        }
    }
}

/* --- The backend of docs/adding-a-backend.md --- */

extern const struct planner_ops ternary_planner;

Test(program, the_backend_of_the_guide_is_right)
{
    for (int n_ranks = 1; n_ranks <= 9; n_ranks++) {
        struct topo *t = grid_mesh(n_ranks);
        for (int c = 0; c < GRID_N_COLLECTIVES; c++) {
            struct plan_request q = {
                .collective = (enum collective)c, .n_ranks = n_ranks, .root = n_ranks / 2};
            struct plan *plan;
            cr_assert_eq(plan_create_with(&ternary_planner, t, &q, &plan), ST_OK);
            cr_assert_str_eq(plan->backend, "ternary");
            try_sizes(plan);
            plan_destroy(plan);
        }
        topo_destroy(t);
    }
}

/* --- Counts that do not fit 32 bits --- */

Test(program, offsets_are_exact_beyond_two_to_the_31)
{
    size_t sizes[] = {((size_t)1 << 31) - 1, (size_t)1 << 31, ((size_t)1 << 31) + 7,
                      ((size_t)1 << 32) + 3};
    enum dtype types[] = {DTYPE_F32, DTYPE_F16};

    for (size_t b = 0; planner_at(b) != NULL; b++) {
        for (int k = 0; k < 4 * 2 * GRID_N_COLLECTIVES; k++) {
            struct topo *t = grid_mesh(7);
            struct plan *plan =
                grid_plan(planner_at(b)->name, t, (enum collective)(k % GRID_N_COLLECTIVES), 1);
            struct program_spec spec = {types[k / GRID_N_COLLECTIVES % 2], REDOP_SUM, true, true,
                                        sizes[k / GRID_N_COLLECTIVES / 2], 0};
            struct program *p = grid_program(plan, &spec);
            size_t total = 0, n;
            cr_assert_eq(program_check(p, plan), ST_OK);
            for (size_t i = 0; i < p->n_trees; i++) {
                for (size_t c = 0; c < p->trees[i].n_chunks; c++) {
                    cr_assert_eq(program_chunk(p, i, c, &n), total);
                    total += n;
                }
            }
            cr_assert_eq(total, spec.n);
            program_destroy(p);
            plan_destroy(plan);
            topo_destroy(t);
        }
    }
}

/* --- Dependencies and memory --- */

Test(program, dependencies_are_the_fewest)
{
    struct topo *t = grid_mesh(8);
    struct program_spec spec = {DTYPE_F32, REDOP_SUM, true, true, 8000, 0};
    struct plan *plan = grid_plan("onehop", t, COLL_ALLREDUCE, -1);
    struct program *p = grid_program(plan, &spec);

    /* A star is one operation that waits for all ranks. */
    cr_assert_eq(p->n_ops, 8);
    cr_assert(p->ops[0].n_deps == 8 && p->ops[0].n_src == 8 && p->ops[0].n_dst == 8);
    program_destroy(p);
    plan_destroy(plan);
    /* In a chain each operation waits for the one before it and for one more rank. */
    plan = grid_plan("lp", t, COLL_REDUCE, 0);
    spec.in_place = false;
    p = grid_program(plan, &spec);
    cr_assert_eq(p->n_ops, 7);
    for (size_t i = 0; i < 7; i++) {
        cr_assert_eq(p->ops[i].n_deps, 2);
        cr_assert_eq(p->ops[i].n_next, i < 6 ? 1 : 0);
    }
    program_destroy(p);
    plan_destroy(plan);
    topo_destroy(t);
}

Test(program, every_failing_allocation_is_reported_without_a_leak)
{
    struct topo *t = grid_mesh(4);
    struct plan *plan = grid_plan("be", t, COLL_ALLREDUCE, -1);
    struct program_spec spec = {DTYPE_F32, REDOP_SUM, true, true, 100, 0};
    struct program *p = NULL;
    enum status st = ST_NOMEM;
    size_t live = mem_live();

    for (size_t k = 1; st != ST_OK; k++) {
        mem_fail_at(k);
        st = program_create(plan, &spec, &p);
        mem_fail_at(0);
        cr_assert(st == ST_OK || (st == ST_NOMEM && mem_live() == live), "failure %zu", k);
    }
    live = mem_live();
    for (size_t k = 1; k <= 3; k++) {
        mem_fail_at(k);
        st = program_check(p, plan);
        mem_fail_at(0);
        cr_assert(st == ST_NOMEM && mem_live() == live, "failure %zu", k);
    }
    program_destroy(p);
    plan_destroy(plan);
    topo_destroy(t);
}
