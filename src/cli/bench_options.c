#include "cli/bench_options.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "cli/args.h"
#include "cli/bench_peer.h"
#include "comm/nccl/nccl.h"

enum {
    FLAG_BACKEND,
    FLAG_COLLECTIVE,
    FLAG_DEVICES,
    FLAG_TOPOLOGY,
    FLAG_PLAN,
    FLAG_BEGIN,
    FLAG_END,
    FLAG_FACTOR,
    FLAG_ITERATIONS,
    FLAG_WARMUP,
    FLAG_CHECK,
    FLAG_DTYPE,
    FLAG_OP,
    FLAG_ROOT,
    FLAG_PLACE,
    FLAG_CHUNK,
    FLAG_WORKERS,
    FLAG_EMULATE,
    FLAG_STARTUP,
    FLAG_TIMEOUT,
    FLAG_PEER,
    FLAG_TYPE,
    FLAG_OVERSUBSCRIBE,
    FLAG_NCCL_LOG,
    FLAG_OUT,
    FLAG_HELP,
    FLAG_VERSION,
    N_FLAGS
};

static const struct args_flag flags[N_FLAGS] = {
    [FLAG_BACKEND] = {"backend", "NAME,...",
                      "one block of results for each, also auto; default: all", NULL, 0},
    [FLAG_COLLECTIVE] = {"collective", "NAME",
                         "broadcast, reduce, allreduce, reduce-scatter or allgather", NULL, 0},
    [FLAG_DEVICES] = {"devices", "N", "number of ranks; default: all of the topology, or 2", NULL,
                      'g'},
    [FLAG_TOPOLOGY] = {"topology", "NAME",
                       "a name in topologies/, a file, or host: this machine's cores", NULL, 0},
    [FLAG_PLAN] = {"plan", "FILE", "run this plan file, made by topo plan --json", NULL, 0},
    [FLAG_BEGIN] = {"begin", "BYTES", "smallest message, with K, M or G; default 4K", NULL, 'b'},
    [FLAG_END] = {"end", "BYTES", "largest message; default 16M", NULL, 'e'},
    [FLAG_FACTOR] = {"factor", "N", "from one size to the next; default 4", NULL, 'f'},
    [FLAG_ITERATIONS] = {"iters", "N", "calls that are timed; default 0: for about 0.1 s", NULL,
                         'n'},
    [FLAG_WARMUP] = {"warmup", "N", "calls before; default 5", NULL, 'w'},
    [FLAG_CHECK] = {"check", "0|1", "compare every element of one call; default 1", NULL, 'c'},
    [FLAG_DTYPE] = {"dtype", "NAME", "float, bfloat16, half or int32", NULL, 'd'},
    [FLAG_OP] = {"op", "NAME", "sum, mean, max or min", NULL, 'o'},
    [FLAG_ROOT] = {"root", "RANK", "of broadcast and reduce; default 0", NULL, 'r'},
    [FLAG_PLACE] = {"place", "in|out|both", "in place, out of place; default both", NULL, 0},
    [FLAG_CHUNK] = {"chunk", "BYTES", "unit of pipelining; default 0: chosen", NULL, 0},
    [FLAG_WORKERS] = {"workers", "N", "threads besides the ranks' own; default 0", NULL, 0},
    [FLAG_EMULATE] = {"emulate", "SCALE",
                      "keep to the topology's links, so many times slower than they are", NULL, 0},
    [FLAG_STARTUP] =
        {"startup", "US",
         "--emulate: microseconds for which a message keeps its links besides its bytes; "
         "default 0",
         NULL, 0},
    [FLAG_TIMEOUT] = {"timeout", "SECONDS", "of every wait; default 60", NULL, 'T'},
    [FLAG_PEER] =
        {"peer", "mpi|openmpi|mpich",
         "then measure the installed MPI library, or that one, under mpirun on as many ranks", NULL,
         0},
    [FLAG_TYPE] = {"type", "NAME", "cpu, or cuda: in the memory of GPUs, also backend nccl", NULL,
                   0},
    [FLAG_OVERSUBSCRIBE] = {"oversubscribe", NULL, "--type cuda: ranks may share a GPU", NULL, 0},
    [FLAG_NCCL_LOG] = {"nccl-log", "FILE",
                       "backend nccl: where the library writes what it chose; default: nowhere",
                       NULL, 0},
    [FLAG_OUT] = {"out", "FILE", "results as well to FILE.csv or FILE.json", NULL, 0},
    [FLAG_HELP] = {"help", NULL, "show this and leave", NULL, 'h'},
    [FLAG_VERSION] = {"version", NULL, "show the versions and leave", NULL, 0},
};

void bench_options_print(FILE *out)
{
    args_print(flags, N_FLAGS, out);
}

static enum status bad(const struct args_flag *f, const char *value, const char *want)
{
    return log_fail(ST_BADARG, "bad value, --%s %.100s, give %s", f->name, value, want);
}

/* A whole number in [min, max]. */
static enum status get_int(const struct args_flag *f, const char *value, int64_t min, int64_t max,
                           int64_t *out)
{
    int64_t v;

    if (!text_to_i64(value, &v) || v < min || v > max) {
        return log_fail(ST_BADARG, "bad value, --%s %.100s, give a whole number from %lld to %lld",
                        f->name, value, (long long)min, (long long)max);
    }
    *out = v;
    return ST_OK;
}

/* A number in [min, max], or above min for `open`. */
static enum status get_real(const struct args_flag *f, const char *value, double min, bool open,
                            double max, double *out)
{
    double v;

    if (!text_to_double(value, &v) || v < min || (open && v == min) || v > max) {
        return log_fail(ST_BADARG, "bad value, --%s %.100s, give a number %s %g and up to %g",
                        f->name, value, open ? "above" : "from", min, max);
    }
    *out = v;
    return ST_OK;
}

/* The backend that the first `n` letters of `name` spell, or NULL. */
static const char *find_backend(const char *name, size_t n)
{
    static const char *const others[] = {"auto", "nccl"};

    for (size_t i = 0; planner_at(i) != NULL; i++) {
        const char *known = planner_at(i)->name;
        if (strlen(known) == n && strncmp(known, name, n) == 0) {
            return known;
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strlen(others[i]) == n && strncmp(others[i], name, n) == 0) {
            return others[i];
        }
    }
    return NULL;
}

static enum status add_backend(const struct args_flag *f, const char *name, size_t n,
                               struct bench_options *o)
{
    const char *known = find_backend(name, n);

    if (known == NULL) {
        return log_fail(ST_BADARG, "unknown backend, --%s %.*s, --help lists all", f->name, (int)n,
                        name);
    }
    if (o->n_backends == BENCH_MAX_BACKENDS) {
        return bad(f, name, "fewer backends");
    }
    o->backends[o->n_backends++] = known;
    return ST_OK;
}

static enum status get_backends(const struct args_flag *f, const char *value,
                                struct bench_options *o)
{
    o->n_backends = 0;
    for (;;) {
        size_t n = strcspn(value, ",");
        TRY(add_backend(f, value, n, o));
        if (value[n] == '\0') {
            return ST_OK;
        }
        value += n + 1;
    }
}

static enum status get_place(const struct args_flag *f, const char *value, struct bench_options *o)
{
    o->in_place = strcmp(value, "out") != 0;
    o->out_of_place = strcmp(value, "in") != 0;
    if (strcmp(value, "in") != 0 && strcmp(value, "out") != 0 && strcmp(value, "both") != 0) {
        return bad(f, value, "in, out or both");
    }
    return ST_OK;
}

static enum status get_out(const struct args_flag *f, const char *value, struct bench_options *o)
{
    const char *dot = strrchr(value, '.');

    if (dot == NULL || (strcmp(dot, ".csv") != 0 && strcmp(dot, ".json") != 0)) {
        return bad(f, value, "a file name that ends in .csv or .json");
    }
    o->out = value;
    return ST_OK;
}

/* Flags whose value is a name. */
static enum status take_name(const struct args_flag *f, const char *value, struct bench_options *o)
{
    switch (f - flags) {
    case FLAG_BACKEND:
        return get_backends(f, value, o);
    case FLAG_COLLECTIVE:
        return collective_find(value, &o->collective) ? ST_OK : bad(f, value, f->help);
    case FLAG_DTYPE:
        return dtype_find(value, &o->dtype) ? ST_OK : bad(f, value, f->help);
    case FLAG_OP:
        return redop_find(value, &o->redop) ? ST_OK : bad(f, value, f->help);
    case FLAG_PLACE:
        return get_place(f, value, o);
    case FLAG_TOPOLOGY:
        o->topology = value;
        return ST_OK;
    case FLAG_PLAN:
        o->plan = value;
        o->backends[0] = "plan";
        o->n_backends = 1;
        return ST_OK;
    case FLAG_PEER:
        o->peer = value;
        return bench_peer_known(value) ? ST_OK : bad(f, value, "mpi, openmpi or mpich");
    case FLAG_TYPE:
        o->cuda = strcmp(value, "cuda") == 0;
        return o->cuda || strcmp(value, "cpu") == 0 ? ST_OK : bad(f, value, "cpu or cuda");
    case FLAG_OVERSUBSCRIBE:
        o->oversubscribe = true;
        return ST_OK;
    case FLAG_NCCL_LOG:
        o->nccl_log = value;
        return ST_OK;
    case FLAG_OUT:
        return get_out(f, value, o);
    case FLAG_HELP:
        o->help = true;
        return ST_OK;
    default:
        o->version = true;
        return ST_OK;
    }
}

static enum status take(const struct args_flag *f, const char *value, struct bench_options *o)
{
    int64_t v = 0;

    switch (f - flags) {
    case FLAG_DEVICES:
        TRY(get_int(f, value, 1, 1024, &v));
        o->n_devices = (int)v;
        return ST_OK;
    case FLAG_BEGIN:
        return text_to_bytes(value, &o->begin) ? ST_OK : bad(f, value, "bytes such as 4K");
    case FLAG_END:
        return text_to_bytes(value, &o->end) ? ST_OK : bad(f, value, "bytes such as 16M");
    case FLAG_CHUNK:
        return text_to_bytes(value, &o->chunk_bytes) ? ST_OK : bad(f, value, "bytes such as 64K");
    case FLAG_FACTOR:
        TRY(get_int(f, value, 2, 1 << 20, &v));
        o->factor = (uint64_t)v;
        return ST_OK;
    case FLAG_ITERATIONS:
        TRY(get_int(f, value, 0, 1000000000, &v));
        o->n_iterations = (size_t)v;
        return ST_OK;
    case FLAG_WARMUP:
        TRY(get_int(f, value, 0, 1000000000, &v));
        o->n_warmup = (size_t)v;
        return ST_OK;
    case FLAG_CHECK:
        return text_to_bool(value, &o->check) ? ST_OK : bad(f, value, "0 or 1");
    case FLAG_ROOT:
        TRY(get_int(f, value, 0, 1023, &v));
        o->root = (int)v;
        return ST_OK;
    case FLAG_WORKERS:
        TRY(get_int(f, value, 0, 256, &v));
        o->n_workers = (int)v;
        return ST_OK;
    case FLAG_EMULATE:
        o->emulate = true;
        return get_real(f, value, 0, true, 1e9, &o->scale);
    case FLAG_STARTUP:
        return get_real(f, value, 0, false, 1e6, &o->startup_us);
    case FLAG_TIMEOUT:
        return get_real(f, value, 0, true, 1e6, &o->timeout_s);
    default:
        return take_name(f, value, o);
    }
}

bool bench_options_next(const struct bench_options *o, uint64_t *bytes)
{
    if (*bytes == 0 && dtype_bytes(o->dtype) <= o->end) {
        *bytes = dtype_bytes(o->dtype);
        return true;
    }
    if (*bytes == 0 || *bytes > o->end / o->factor) {
        return false;
    }
    *bytes *= o->factor;
    return true;
}

enum status bench_options_parse(int argc, const char *const *argv, struct bench_options *o)
{
    struct args a = {flags, N_FLAGS, argc, argv, 1};
    const struct args_flag *f;
    const char *value;

    *o = (struct bench_options){.collective = COLL_ALLREDUCE,
                                .begin = 4 << 10,
                                .end = 16 << 20,
                                .factor = 4,
                                .n_warmup = 5,
                                .check = true,
                                .out_of_place = true,
                                .in_place = true,
                                .timeout_s = 60,
                                .topology = "",
                                .out = ""};
    for (; planner_at(o->n_backends) != NULL && o->n_backends < BENCH_MAX_BACKENDS;
         o->n_backends++) {
        o->backends[o->n_backends] = planner_at(o->n_backends)->name;
    }
    for (;;) {
        TRY(args_next(&a, &f, &value));
        if (f == NULL) {
            break;
        }
        TRY(take(f, value, o));
    }
    for (size_t i = 0; i < o->n_backends && !o->cuda; i++) {
        if (strcmp(o->backends[i], "nccl") == 0) {
            return nccl_refuse();
        }
    }
    if (o->cuda && o->emulate) {
        return log_fail(ST_BADARG, "--emulate moves bytes in the host's memory and cannot go with "
                                   "--type cuda, drop one of them");
    }
    if (o->end < o->begin) {
        return log_fail(ST_BADARG, "sizes from %llu to %llu bytes, -b and -e, swap them",
                        (unsigned long long)o->begin, (unsigned long long)o->end);
    }
    return ST_OK;
}
