/*
 * topo probe: the links between CPU devices. A device is a core; what one writes another copies,
 * and the time of the copies is the link. The links of GPUs are what the driver says, and with
 * --measure their rates what copies reach.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/topo_tool.h"
#include "comm/link_rates.h"
#include "device/device.h"
#include "topo/topo_discover.h"
#include "topo/topo_export.h"

enum {
    LARGE = 32 << 20,
    SMALL = 64,
    REPEATS = 5
};

struct copy {
    const char *from;
    char *to;
    int core;
    double large_s, small_s;
};

static void pin(int core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(core, &set);
    (void)sched_setaffinity(0, sizeof set, &set); /* unpinned is less exact, not wrong */
}

static double time_copy(const struct copy *c, size_t n, int repeats)
{
    double best = 1e9;

    for (int i = 0; i < repeats; i++) {
        double begin = clock_now_s(), took;
        memcpy(c->to, c->from, n);
        took = clock_now_s() - begin;
        best = took < best ? took : best;
    }
    return best;
}

static void *run_copy(void *arg)
{
    struct copy *c = arg;

    pin(c->core);
    c->large_s = time_copy(c, LARGE, REPEATS);
    c->small_s = time_copy(c, SMALL, 1000);
    return NULL;
}

/* Write the source on one core, copy it on another. */
static enum status measure(char *from, char *to, int sender, int receiver, struct topo_link *l)
{
    struct copy c = {from, to, receiver, 0, 0};
    pthread_t thread;

    pin(sender);
    memset(from, sender + 1, LARGE);
    if (pthread_create(&thread, NULL, run_copy, &c) != 0) {
        return log_fail(ST_IO, "cannot start a thread to measure a link");
    }
    (void)pthread_join(thread, NULL);
    l->bytes_per_s = (int64_t)(LARGE / c.large_s / 1e6) * 1000000;
    l->latency_ns = (int64_t)(1e9 * c.small_s);
    return ST_OK;
}

static enum status probe_into(struct topo *t, int n, char *from, char *to)
{
    for (int i = 0; i < n; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "cpu%d", i);
        TRY(topo_add_vertex(t, name, TOPO_CPU, NULL));
    }
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            struct topo_link l = {.from = i, .to = j, .kind = (char *)"memory"};
            if (i != j) {
                TRY(measure(from, to, i, j, &l));
                TRY(topo_add_link(t, &l));
            }
        }
    }
    return ST_OK;
}

static enum status write_result(const struct topo_options *o, const struct topo *t)
{
    FILE *f;
    enum status st, closed;

    TRY(topo_out_open(o, &f));
    st = o->json ? topo_write_json(t, f) : topo_write(t, f);
    closed = topo_out_close(o, f);
    return st != ST_OK ? st : closed;
}

/* What copies from GPU to GPU reach. */
static enum status measure_gpus(struct topo *t)
{
    const size_t n = (size_t)t->n_devices;
    const struct device_ops *ops;
    double *rates = mem_alloc(n * n, sizeof *rates);
    int *devices = mem_alloc(n, sizeof *devices);
    void *set = NULL;
    enum status st = rates == NULL || devices == NULL ? ST_NOMEM : ST_OK;

    (void)setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1); /* the order of the topology */
    st = st == ST_OK ? device_find("cuda", &ops) : st;
    for (size_t i = 0; st == ST_OK && i < n; i++) {
        devices[i] = (int)i;
    }
    if (st == ST_OK) {
        st = ops->open(devices, (int)n, &set);
    }
    if (st == ST_OK) {
        st = link_rates_measure(ops, set, (int)n, LARGE, rates);
        ops->close(set);
    }
    st = st == ST_OK ? link_rates_apply(t, rates) : st;
    mem_free(devices);
    mem_free(rates);
    return st;
}

static enum status probe_gpus(const struct topo_options *o)
{
    const struct topo_discovery here = {.library = NULL};
    struct topo *t = NULL;
    enum status st = topo_discover(&here, &t);

    st = st == ST_OK && o->measure ? measure_gpus(t) : st;
    st = st == ST_OK ? write_result(o, t) : st;
    topo_destroy(t);
    return st;
}

static enum status probe_cpus(const struct topo_options *o)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int n = o->n_devices > 0 ? o->n_devices : cores < 2 ? 2 : cores > 64 ? 64 : (int)cores;
    char *from = mem_alloc(LARGE, 1), *to = mem_alloc(LARGE, 1);
    struct topo *t = NULL;
    enum status st = from == NULL || to == NULL ? ST_NOMEM : ST_OK;

    if (st == ST_OK) {
        st = topo_create("probed", "CPU devices, measured by copies between their cores", &t);
    }
    if (st == ST_OK) {
        st = probe_into(t, n, from, to);
    }
    if (st == ST_OK) {
        st = write_result(o, t);
    }
    topo_destroy(t);
    mem_free(from);
    mem_free(to);
    return st;
}

enum status topo_probe(const struct topo_options *o)
{
    if (o->type == NULL || strcmp(o->type, "cpu") == 0) {
        return probe_cpus(o);
    }
    if (strcmp(o->type, "cuda") == 0) {
        return probe_gpus(o);
    }
    return log_fail(ST_BADARG, "unknown type '%.32s', --type, use cpu or cuda", o->type);
}
