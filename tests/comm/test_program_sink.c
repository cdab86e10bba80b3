/* Sums that go to a sink. */
#include <string.h>

#include "base/mem.h"
#include "chaos.h"
#include "grid.h"

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
