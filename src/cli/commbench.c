/* commbench: measures collectives. See --help. */
#include <stdio.h>

#include "base/log.h"
#include "cli/args.h"
#include "cli/backends.h"
#include "cli/bench_options.h"
#include "cli/bench_peer.h"
#include "cli/bench_results.h"
#include "cli/version.h"
#include "comm/bench.h"
#include "comm/bench_device.h"
#include "topo/topo.h"

static void print_help(void)
{
    (void)fputs("Measures collectives between the devices of this machine.\n\n"
                "  commbench [--backend NAME,...] [--collective NAME] [-b BYTES] [-e BYTES] "
                "[FLAG]...\n\nFlags (--flag VALUE or --flag=VALUE):\n",
                stdout);
    bench_options_print(stdout);
    (void)fputs("\nBackends:\n", stdout);
    backends_print(stdout);
    (void)fputs("\nSizes are those of the whole message, of the whole result for allgather. GB/s "
                "are 1e9 bytes a second;\nalgbw = bytes / time, busbw = algbw times 2 (P-1)/P "
                "(allreduce), (P-1)/P (reduce-scatter,\nallgather) or 1. #wrong counts elements of "
                "one call on data that differ by rank and element.\n",
                stdout);
}

/* The devices to run on: the first ones of a topology, or a mesh through memory. */
static enum status get_topology(const struct bench_options *o, struct topo **out)
{
    const int64_t memory_bytes_per_s = 10000000000, memory_latency_ns = 200;
    struct topo *all = NULL;
    int ranks[1024];
    enum status st;

    if (o->topology[0] == '\0') {
        return topo_mesh(o->n_devices > 0 ? o->n_devices : 2, memory_bytes_per_s, memory_latency_ns,
                         out);
    }
    TRY(topo_open(o->topology, &all));
    if (o->n_devices == 0 || o->n_devices == all->n_devices) {
        *out = all;
        return ST_OK;
    }
    for (int i = 0; i < o->n_devices; i++) {
        ranks[i] = i;
    }
    st = topo_subset(all, ranks, o->n_devices, out);
    topo_destroy(all);
    return st;
}

static enum status bench_one(const struct bench_options *o, const struct bench_spec *spec,
                             struct bench_result *out)
{
    struct bench_devices where = {.oversubscribe = o->oversubscribe, .nccl_log = o->nccl_log};

    if (!o->cuda) {
        return bench_run(spec, out);
    }
    TRY(device_find("cuda", &where.device));
    return bench_device_run(spec, &where, out);
}

static void tell_no_memory(const struct bench_spec *spec)
{
    log_error("no memory for %zu elements on each of %d ranks, backend %s, lower -e or --devices",
              spec->n, spec->topo->n_devices, spec->backend);
}

static enum status bench_size(const struct bench_options *o, struct bench_spec *spec,
                              struct bench_results *results)
{
    struct bench_result r[2];
    const struct bench_result *place[2] = {NULL, NULL};

    for (int k = 0; k < 2; k++) {
        enum status st;
        if (k == 0 ? !o->out_of_place : !o->in_place) {
            continue;
        }
        spec->in_place = k == 1;
        st = bench_one(o, spec, &r[k]);
        if (st == ST_NOMEM) {
            tell_no_memory(spec);
        }
        TRY(st);
        place[k] = &r[k];
        if (r[k].wrong > 0) {
            log_error("%zu wrong elements, backend %s, %zu elements", r[k].wrong, spec->backend,
                      spec->n);
        }
    }
    bench_results_line(results, spec, place);
    TRY(args_flush_stdout());
    return (place[0] != NULL && r[0].wrong > 0) || (place[1] != NULL && r[1].wrong > 0)
               ? ST_INTERNAL
               : ST_OK;
}

static enum status bench_backend(const struct bench_options *o, const struct topo *t,
                                 const char *backend, struct bench_results *results)
{
    struct bench_spec spec = {.topo = t,
                              .backend = backend,
                              .plan = o->plan,
                              .collective = o->collective,
                              .dtype = o->dtype,
                              .redop = o->redop,
                              .root = o->root,
                              .check = o->check,
                              .chunk_bytes = o->chunk_bytes,
                              .emulate = o->emulate,
                              .scale = o->scale,
                              .startup_s = o->startup_us * 1e-6,
                              .n_workers = o->n_workers,
                              .n_warmup = o->n_warmup,
                              .n_iterations = o->n_iterations,
                              .timeout_s = o->timeout_s};

    uint64_t bytes = o->begin;

    bench_results_begin(results);
    do {
        spec.n = bytes / dtype_bytes(o->dtype);
        TRY(bench_size(o, &spec, results));
    } while (bench_options_next(o, &bytes));
    return ST_OK;
}

static enum status bench(const struct bench_options *o, int argc, char **argv)
{
    struct bench_results *results = NULL;
    struct topo *t = NULL;
    enum status st = get_topology(o, &t), closed;

    if (st == ST_OK) {
        st = bench_results_open(o->out, false, &results);
    }
    for (size_t i = 0; st == ST_OK && i < o->n_backends; i++) {
        st = bench_backend(o, t, o->backends[i], results);
    }
    if (st == ST_OK && o->peer != NULL) {
        st = bench_peer_run(o->peer, t->n_devices, argc, argv);
    }
    closed = bench_results_close(results);
    topo_destroy(t);
    return st == ST_OK ? closed : st;
}

int main(int argc, char **argv)
{
    struct bench_options o;
    enum status st = bench_options_parse(argc, (const char *const *)argv, &o);

    if (st == ST_OK && o.help) {
        print_help();
    } else if (st == ST_OK && o.version) {
        version_print("commbench", stdout);
    } else if (st == ST_OK) {
        st = bench(&o, argc, argv);
    }
    if (st == ST_OK) {
        st = args_flush_stdout();
    }
    return status_exit_code(st);
}
