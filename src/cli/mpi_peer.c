/*
 * commbench-mpi: the same measurements with the collectives of the MPI library that it was built
 * with. Started by commbench --peer mpi under mpirun, with the same flags.
 */
#include <limits.h>
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/args.h"
#include "cli/bench_options.h"
#include "cli/bench_results.h"
#include "comm/bench_data.h"
#include "comm/program.h"

struct peer {
    const struct bench_options *o;
    struct program ranges; /* of what each rank gives and gets; it has no operations */
    int rank, n_ranks;
    char *in, *out; /* the same in place */
    int *counts, *first;
    MPI_Datatype type;
    MPI_Op op;
    bool in_place;
};

static enum status find_types(struct peer *p)
{
    enum dtype d = p->o->dtype;
    enum redop r = p->o->redop;

    if ((d != DTYPE_F32 && d != DTYPE_I32) || r == REDOP_MEAN) {
        return log_fail(ST_UNSUPPORTED,
                        "MPI has no %s of type %s, use float or int32 and sum, max or min",
                        redop_name(r), dtype_name(d));
    }
    p->type = d == DTYPE_F32 ? MPI_FLOAT : MPI_INT32_T;
    p->op = r == REDOP_SUM ? MPI_SUM : r == REDOP_MAX ? MPI_MAX : MPI_MIN;
    return ST_OK;
}

static void call(const struct peer *p)
{
    int n = (int)p->ranges.spec.n, root = p->o->root;
    const void *in = p->in_place ? MPI_IN_PLACE : p->in;

    switch (p->o->collective) {
    case COLL_BROADCAST: /* MPI knows it in place only */
        (void)MPI_Bcast(p->out, n, p->type, root, MPI_COMM_WORLD);
        break;
    case COLL_REDUCE:
        (void)MPI_Reduce(p->rank == root ? in : p->in, p->out, n, p->type, p->op, root,
                         MPI_COMM_WORLD);
        break;
    case COLL_ALLREDUCE:
        (void)MPI_Allreduce(in, p->out, n, p->type, p->op, MPI_COMM_WORLD);
        break;
    case COLL_REDUCE_SCATTER: /* in place the result comes first */
        (void)MPI_Reduce_scatter(in, p->out, p->counts, p->type, p->op, MPI_COMM_WORLD);
        break;
    case COLL_ALLGATHER:
        (void)MPI_Allgatherv(in, p->counts[p->rank], p->type, p->out, p->counts, p->first, p->type,
                             MPI_COMM_WORLD);
        break;
    }
}

/* Seconds for `n` calls on the slowest rank. */
static double call_many(const struct peer *p, size_t n)
{
    double begin, mine, slowest;

    (void)MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    for (size_t i = 0; i < n; i++) {
        call(p);
    }
    mine = MPI_Wtime() - begin;
    (void)MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

static size_t check(const struct peer *p)
{
    enum collective c = p->o->collective;
    size_t elem = dtype_bytes(p->o->dtype), n_in, n_out;
    size_t in = program_in_range(&p->ranges, p->rank, &n_in);
    size_t out = program_out_range(&p->ranges, p->rank, &n_out);
    bool gets = c != COLL_REDUCE || p->rank == p->o->root;
    char *give = c == COLL_BROADCAST ? p->out : p->in;

    bench_data_fill(p->o->dtype, p->rank,
                    give + (p->in_place && c == COLL_ALLGATHER ? in * elem : 0), in, n_in);
    call(p);
    return gets ? bench_data_wrong(&p->ranges, p->o->root, p->out, out, n_out) : 0;
}

static enum status make_buffers(struct peer *p)
{
    size_t elem = dtype_bytes(p->o->dtype), n = p->ranges.spec.n, block;

    if (n > INT_MAX) {
        return log_fail(ST_UNSUPPORTED, "%zu elements are more than MPI counts, lower -e", n);
    }
    p->in = mem_alloc(n, elem);
    p->out = p->in_place ? p->in : mem_alloc(n, elem);
    p->counts = mem_alloc((size_t)p->n_ranks, sizeof *p->counts);
    p->first = mem_alloc((size_t)p->n_ranks, sizeof *p->first);
    if (p->in == NULL || p->out == NULL || p->counts == NULL || p->first == NULL) {
        return log_fail(ST_NOMEM, "no memory for %zu elements on rank %d, lower -e", n, p->rank);
    }
    for (int r = 0; r < p->n_ranks; r++) {
        struct program blocks = p->ranges;
        blocks.collective = COLL_ALLGATHER;
        p->first[r] = (int)program_in_range(&blocks, r, &block);
        p->counts[r] = (int)block;
    }
    return ST_OK;
}

/* ST_OK if it is that on all ranks: nobody is to wait for one that cannot go on. */
static enum status on_all(enum status mine)
{
    int bad = mine != ST_OK, any = 0;

    (void)MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return mine == ST_OK && any != 0 ? ST_PEER : mine;
}

static void free_buffers(struct peer *p)
{
    if (p->out != p->in) {
        mem_free(p->out);
    }
    mem_free(p->in);
    mem_free(p->counts);
    mem_free(p->first);
}

static void measure(struct peer *p, struct bench_result *out)
{
    size_t wrong = p->o->check ? check(p) : 0, n = p->o->n_iterations;
    unsigned long long mine = wrong, all = 0;
    double took, bytes;

    (void)call_many(p, p->o->n_warmup);
    n = n != 0 ? n : bench_more(0, 0);
    took = call_many(p, n);
    while (p->o->n_iterations == 0 && bench_more(n, took) != n) { /* the same on every rank */
        n = bench_more(n, took);
        took = call_many(p, n);
    }
    bytes = (double)p->ranges.spec.n * (double)dtype_bytes(p->o->dtype);
    (void)MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    *out = (struct bench_result){.n_iterations = n, .predicted_s = NAN, .wrong = (size_t)all};
    out->time_s = took / (double)n;
    out->algbw_gbs = out->time_s > 0 ? bytes / out->time_s * 1e-9 : 0;
    out->busbw_gbs = out->algbw_gbs * bench_bus_factor(p->o->collective, p->n_ranks);
    strcpy(out->backend, "mpi");
}

static enum status bench_size(struct peer *p, struct bench_spec *spec,
                              struct bench_results *results)
{
    struct bench_result r[2];
    const struct bench_result *place[2] = {NULL, NULL};

    for (int k = 0; k < 2; k++) {
        enum status st;
        if (k == 0 ? !p->o->out_of_place || p->o->collective == COLL_BROADCAST : !p->o->in_place) {
            continue;
        }
        p->in_place = k == 1;
        p->ranges =
            (struct program){.collective = p->o->collective,
                             .n_ranks = p->n_ranks,
                             .n_nodes = p->n_ranks,
                             .spec = {p->o->dtype, p->o->redop, p->in_place, false, spec->n, 0}};
        st = on_all(make_buffers(p));
        if (st == ST_OK) {
            measure(p, &r[k]);
            place[k] = &r[k];
        }
        free_buffers(p);
        if (st != ST_OK) {
            return st;
        }
    }
    if (p->rank == 0) {
        bench_results_line(results, spec, place);
    }
    return ST_OK;
}

static enum status bench(struct peer *p)
{
    struct bench_spec spec = {.backend = "mpi",
                              .collective = p->o->collective,
                              .dtype = p->o->dtype,
                              .redop = p->o->redop,
                              .root = p->o->root,
                              .check = p->o->check};
    struct bench_results *results = NULL;
    struct topo *t = NULL;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    uint64_t bytes = p->o->begin;
    int n = 0;
    enum status st = topo_mesh(p->n_ranks, 1, 0, &t), closed;

    spec.topo = t;
    st = st == ST_OK ? find_types(p) : st;
    st = st == ST_OK ? bench_results_open(p->rank == 0 ? p->o->out : "", true, &results) : st;
    if (st == ST_OK && p->rank == 0) {
        (void)MPI_Get_library_version(version, &n);
        printf("# %.*s\n", (int)strcspn(version, ",\n"), version);
        bench_results_begin(results);
    }
    for (bool go = st == ST_OK; go; go = st == ST_OK && bench_options_next(p->o, &bytes)) {
        spec.n = bytes / dtype_bytes(p->o->dtype);
        st = bench_size(p, &spec, results);
    }
    closed = bench_results_close(results);
    topo_destroy(t);
    return st == ST_OK ? closed : st;
}

int main(int argc, char **argv)
{
    struct bench_options o;
    struct peer p = {.o = &o};
    enum status st;

    (void)MPI_Init(&argc, &argv);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &p.n_ranks);
    st = bench_options_parse(argc, (const char *const *)argv, &o);
    if (st == ST_OK) {
        st = bench(&p);
    }
    if (st == ST_OK) {
        st = args_flush_stdout();
    }
    (void)MPI_Finalize();
    return status_exit_code(st);
}
