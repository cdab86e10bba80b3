/* Commands for streams: how many streams a program takes, and who shares them. */
#include <criterion/criterion.h>

#include "base/mem.h"
#include "comm/cuda/itinerary.h"
#include "grid.h"

static bool reaches_all(void *ctx, int rank, int node)
{
    (void)ctx;
    (void)rank;
    (void)node;
    return true;
}

static struct itinerary *itinerary_of(const char *backend, int n_ranks, size_t n,
                                      size_t chunk_bytes, struct program **program)
{
    struct program_spec spec = {.n = n, .in_place = true, .chunk_bytes = chunk_bytes};
    struct topo *t = grid_mesh(n_ranks);
    struct plan *plan = grid_plan(backend, t, COLL_ALLREDUCE, -1);
    struct itinerary *s = NULL;

    *program = grid_program(plan, &spec);
    cr_assert_eq(itinerary_create(*program, reaches_all, NULL, &s), ST_OK);
    return s; /* plan and topology live on, for the program */
}

/* One stream for each hop: a chain of P ranks has P - 1 links, used up and down. */
Test(itinerary, a_chain_has_a_stream_for_each_hop)
{
    struct program *p;
    struct itinerary *s = itinerary_of("lp", 5, 1000, 40, &p);
    size_t n_work = 0;

    cr_assert_eq(s->n_streams, 1 + 2 * 4);
    for (size_t k = 0; k < s->n_commands; k++) {
        n_work += s->commands[k].kind == COMMAND_COPY || s->commands[k].kind == COMMAND_FOLD;
    }
    cr_assert_eq(n_work, p->n_instances);
    cr_assert_leq(s->n_commands, 3 * n_work + (size_t)(2 * s->n_streams),
                  "a chunk needs a wait, the work and a record");
}

/* Two trees that meet a link at the same hop share its stream: stars of one hop do everywhere. */
Test(itinerary, trees_share_the_stream_of_the_same_hop)
{
    struct program *p;
    struct itinerary *s = itinerary_of("central", 4, 100, 16, &p);
    int n_one = s->n_streams;

    cr_assert_eq(n_one, 1 + 2 * 3);
    itinerary_destroy(s);
    program_destroy(p);
    s = itinerary_of("ring", 4, 100, 16, &p);
    for (int a = 1; a < s->n_streams; a++) {
        for (int b = 1; b < a; b++) {
            const struct itinerary_stream *x = &s->streams[a], *y = &s->streams[b];
            cr_assert(x->from != y->from || x->to != y->to || x->level != y->level);
        }
    }
}

Test(itinerary, every_failing_allocation_is_reported)
{
    struct program *p;
    struct itinerary *s = itinerary_of("ring", 4, 100, 16, &p);
    enum status st = ST_NOMEM;
    size_t live;

    itinerary_destroy(s);
    live = mem_live();
    for (size_t k = 1; st != ST_OK; k++) {
        mem_fail_at(k);
        s = NULL;
        st = itinerary_create(p, reaches_all, NULL, &s);
        mem_fail_at(0);
        cr_assert(st == ST_OK || st == ST_NOMEM);
        itinerary_destroy(s);
        cr_assert_eq(mem_live(), live, "failure %zu leaks", k);
    }
}
