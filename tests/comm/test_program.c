#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "grid.h"

/*
 * A test engine: runs whatever is ready in a random order drawn from `seed`. Ranks post at random
 * times in between. Nothing but the dependencies orders two operations.
 */
struct chaos {
    const struct program *p;
    int *waits;    /* [n_instances] */
    size_t *ready; /* instances that may run, as tree, chunk, op */
    size_t n_ready;
    struct rng rng;
    uint64_t draws;
};

static size_t instance(const struct program *p, size_t tree, size_t chunk, size_t op)
{
    return p->trees[tree].first_instance + chunk * p->trees[tree].n_ops + op;
}

static void release(struct chaos *c, size_t tree, size_t chunk, size_t op)
{
    size_t id = instance(c->p, tree, chunk, op);

    cr_assert_gt(c->waits[id], 0);
    if (--c->waits[id] == 0) {
        c->ready[c->n_ready++] = tree;
        c->ready[c->n_ready++] = chunk;
        c->ready[c->n_ready++] = op;
    }
}

static void post(struct chaos *c, int node)
{
    for (size_t t = 0; t < c->p->n_trees; t++) {
        for (size_t i = 0; i < c->p->trees[t].n_ops; i++) {
            const struct program_op *op = &c->p->ops[c->p->trees[t].op + i];
            for (int k = 0; k < op->n_posts; k++) {
                for (size_t chunk = 0;
                     chunk < c->p->trees[t].n_chunks && c->p->ints[op->posts + (size_t)k] == node;
                     chunk++) {
                    release(c, t, chunk, i);
                }
            }
        }
    }
}

static void run_one(struct chaos *c, const uintptr_t *bases)
{
    size_t at = 3 * (size_t)rng_below(&c->rng, c->draws++, c->n_ready / 3);
    size_t tree = c->ready[at], chunk = c->ready[at + 1], op = c->ready[at + 2];
    const struct program_op *o = &c->p->ops[c->p->trees[tree].op + op];

    c->n_ready -= 3;
    memmove(c->ready + at, c->ready + c->n_ready, 3 * sizeof *c->ready);
    program_run(c->p, bases, tree, chunk, op);
    for (int k = 0; k < o->n_next; k++) {
        release(c, tree, chunk, (size_t)c->p->ints[o->next + (size_t)k]);
    }
}

/* Returns how many operations ran. */
static size_t chaos_run(const struct program *p, const uintptr_t *bases, uint64_t seed)
{
    struct chaos c = {.p = p, .rng = rng_make(seed, RNG_TEST, 0)};
    int *left = mem_alloc((size_t)p->n_nodes, sizeof *left), n_left = p->n_ranks;
    size_t ran = 0;

    c.waits = mem_alloc(p->n_instances, sizeof *c.waits);
    c.ready = mem_alloc(3 * p->n_instances, sizeof *c.ready);
    cr_assert(left && c.waits && c.ready);
    for (size_t t = 0; t < p->n_trees; t++) {
        for (size_t k = 0; k < p->trees[t].n_chunks * p->trees[t].n_ops; k++) {
            c.waits[p->trees[t].first_instance + k] =
                p->ops[p->trees[t].op + k % p->trees[t].n_ops].n_deps;
        }
    }
    for (int v = 0; v < p->n_ranks; v++) {
        left[v] = v;
    }
    while (n_left > 0 || c.n_ready > 0) {
        if (n_left > 0 && (c.n_ready == 0 || rng_below(&c.rng, c.draws++, 4) == 0)) {
            size_t at = (size_t)rng_below(&c.rng, c.draws++, (uint64_t)n_left);
            post(&c, left[at]);
            left[at] = left[--n_left];
            for (int v = p->n_ranks; n_left == 0 && v < p->n_nodes; v++) {
                post(&c, v);
            }
        } else {
            run_one(&c, bases);
            ran++;
        }
    }
    mem_free(left);
    mem_free(c.waits);
    mem_free(c.ready);
    return ran;
}

/* --- The grid --- */

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

/* --- Sums that go to a sink --- */

struct basin {
    float *sums;
    unsigned char *times; /* that each element came */
};

static void collect(void *ctx, size_t first, size_t n, const float *const *parts, int n_parts)
{
    struct basin *b = ctx;

    for (size_t i = 0; i < n; i++) {
        float sum = parts[0][i];
        for (int k = 1; k < n_parts; k++) {
            sum += parts[k][i];
        }
        b->sums[first + i] = sum;
        b->times[first + i]++;
    }
}

/* Contributions of many magnitudes: another order of additions gives other bits. */
static void roughen(struct grid_memory *m, size_t n)
{
    grid_memory_fill(m);
    for (int r = 0; r < m->p->n_ranks; r++) {
        for (size_t i = 0; i < n; i++) {
            m->in[r][GRID_GUARD + i] *= 1.0f + 0x1p-20f * (float)(1 + (i * 31 + (size_t)r) % 977);
        }
    }
}

/* The sink must get the bits that an allreduce leaves, each element once, in any order of work. */
static void try_sink(const struct plan *plan, const struct program_spec *spec, uint64_t seed)
{
    struct program *whole = grid_program(plan, spec), *p;
    struct basin b = {.sums = mem_alloc(spec->n, sizeof(float)), .times = mem_alloc(spec->n, 1)};
    const struct program_sink sink = {collect, &b};
    struct grid_memory want, got;

    cr_assert_eq(program_create_sink(plan, spec, &sink, &p), ST_OK);
    cr_assert_eq(program_check(p, plan), ST_OK);
    grid_memory_init(&want, whole);
    grid_memory_init(&got, p);
    roughen(&want, spec->n);
    roughen(&got, spec->n);
    (void)chaos_run(whole, want.bases, seed);
    cr_assert_eq(chaos_run(p, got.bases, seed + 1), p->n_instances);
    cr_assert_eq(memcmp(b.sums, want.in[0] + GRID_GUARD, spec->n * sizeof(float)), 0,
                 "%s P=%d n=%zu chunk=%zu fuse=%d", plan->backend, plan->n_ranks, spec->n,
                 spec->chunk_bytes, spec->fuse);
    for (size_t i = 0; i < spec->n; i++) {
        cr_assert_eq(b.times[i], 1);
    }
    grid_memory_fini(&want);
    grid_memory_fini(&got);
    program_destroy(whole);
    program_destroy(p);
    mem_free(b.sums);
    mem_free(b.times);
}

Test(program, a_sink_gets_the_bits_of_an_allreduce)
{
    static const size_t sizes[] = {0, 1, 5, 129, 1000, 8191};

    for (size_t b = 0; planner_at(b) != NULL; b++) {
        for (size_t k = 0; k < GRID_N_RANKS && grid_ranks[k] <= 11; k++) {
            struct topo *t = grid_mesh(grid_ranks[k]);
            struct plan *plan = grid_plan(planner_at(b)->name, t, COLL_ALLREDUCE, -1);
            for (size_t i = 0; i < 4 * sizeof sizes / sizeof *sizes; i++) {
                struct program_spec spec = {.dtype = DTYPE_F32,
                                            .redop = REDOP_SUM,
                                            .in_place = true,
                                            .fuse = i % 2 == 0,
                                            .n = sizes[i / 4],
                                            .chunk_bytes = i % 4 < 2 ? 400 : 0};
                try_sink(plan, &spec, i);
            }
            plan_destroy(plan);
            topo_destroy(t);
        }
    }
}

/* A sink that gets nothing, twice the same, or not all of it. */
Test(program, check_catches_a_sink_that_gets_the_wrong_thing)
{
    const struct program_sink sink = {collect, NULL};
    const struct program_spec spec = {
        .dtype = DTYPE_F32, .redop = REDOP_SUM, .in_place = true, .n = 200};
    int tried = 0;

    for (size_t b = 0; planner_at(b) != NULL; b++) {
        for (int how = 0; how < 4; how++) {
            struct topo *t = grid_mesh(5);
            struct plan *plan = grid_plan(planner_at(b)->name, t, COLL_ALLREDUCE, -1);
            struct program *p;
            struct program_op *last;
            cr_assert_eq(program_create_sink(plan, &spec, &sink, &p), ST_OK);
            last = &p->ops[p->trees[0].op + p->trees[0].n_ops - 1];
            cr_assert(last->sinks && last->n_dst == 0);
            if (how == 0) {
                last->sinks = false;
            } else if (how == 1) {
                last->n_src--;
                last->dst--;
            } else if (how == 2) {
                p->refs[last->src] = p->refs[last->src + 1];
            } else if (p->trees[0].n_ops > 1) {
                last[-1].sinks = true;
            }
            if (how < 3 || p->trees[0].n_ops > 1) {
                cr_assert_eq(program_check(p, plan), ST_INTERNAL, "%s, %d", plan->backend, how);
                tried++;
            }
            program_destroy(p);
            plan_destroy(plan);
            topo_destroy(t);
        }
    }
    cr_assert_gt(tried, 24);
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

/* --- The check itself --- */

/* Break a program in one way; false if there is no such thing in it. */
static bool break_program(struct program *p, int how)
{
    struct program_tree *t = &p->trees[p->n_trees - 1];
    struct program_op *ops = &p->ops[t->op], *last = &ops[t->n_ops - 1];
    struct program_op *with_next = NULL;

    for (size_t i = 0; i < t->n_ops; i++) {
        with_next = ops[i].n_next > 0 ? &ops[i] : with_next;
    }
    switch (how) {
    case 0: /* an operation is missing */
        t->n_ops--;
        for (size_t i = 0; i < t->n_ops; i++) {
            for (int k = 0; k < ops[i].n_next; k++) {
                if (p->ints[ops[i].next + (size_t)k] == (int)t->n_ops) {
                    p->ints[ops[i].next + (size_t)k] =
                        p->ints[ops[i].next + (size_t)--ops[i].n_next];
                }
            }
        }
        return true;
    case 1: /* a dependency is missing, and the counter agrees */
        if (with_next != NULL) {
            ops[p->ints[with_next->next + (size_t)--with_next->n_next]].n_deps--;
        }
        return with_next != NULL;
    case 2: /* the counter does not agree */
        last->n_deps++;
        return true;
    case 3: /* a buffer is used before it is given */
        for (size_t i = 0; i < t->n_ops; i++) {
            if (ops[i].n_posts > 0) {
                ops[i].n_posts--;
                ops[i].n_deps--;
                return true;
            }
        }
        return false;
    case 4: /* a contribution counts twice */
        p->refs[ops[0].src + (size_t)ops[0].n_src - 1] = p->refs[ops[0].src];
        return ops[0].n_src > 1;
    case 5: /* something else is written */
        p->refs[last->dst].node = (p->refs[last->dst].node + 1) % p->n_ranks;
        return true;
    case 6: /* chunks overlap */
        t->offset--;
        return true;
    case 7: /* the last elements are lost */
        t->n--;
        return true;
    case 8: /* a rank's memory is touched behind its back */
        last->n_ranks--;
        return true;
    case 9: /* a mean without a division, a sum with one */
        for (size_t i = 0; i < t->n_ops; i++) {
            if (ops[i].n_src > 1) {
                ops[i].finish = !ops[i].finish;
                return true;
            }
        }
        return false;
    default:
        return false;
    }
}

Test(program, check_catches_every_mutation)
{
    int tried[10] = {0};

    for (size_t b = 0; planner_at(b) != NULL; b++) {
        for (int k = 0; k < 10 * 8; k++) {
            struct topo *t = grid_mesh(5);
            struct plan *plan = grid_plan(planner_at(b)->name, t, COLL_ALLREDUCE, -1);
            struct program_spec spec = {
                DTYPE_F32, k / 10 % 2 ? REDOP_MEAN : REDOP_SUM, k / 20 % 2, k / 40 % 2, 200, 80};
            struct program *p = grid_program(plan, &spec);
            cr_assert_eq(program_check(p, plan), ST_OK);
            if (break_program(p, k % 10)) {
                tried[k % 10]++;
                cr_assert_eq(program_check(p, plan), ST_INTERNAL, "%s mutation %d fuse=%d",
                             plan->backend, k % 10, spec.fuse);
            }
            program_destroy(p);
            plan_destroy(plan);
            topo_destroy(t);
        }
    }
    for (int how = 0; how < 10; how++) {
        cr_assert_gt(tried[how], 0, "mutation %d was never possible", how);
    }
}

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
