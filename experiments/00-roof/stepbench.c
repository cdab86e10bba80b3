#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "models/models.h"
#include "nn/graph_internal.h"

/*
 * Images per second of the whole step (forward, loss, backward) of a model on one thread per
 * device, devices side by side; no data loading, no optimizer, no communication.
 *
 *     stepbench MODEL CHANNELS SIZE CLASSES BATCH [fp32|bf16] [DEVICES] [CACHE] [profile]
 */

enum {
    MAX_DEVICES = 64,
    REPETITIONS = 7
};

struct job {
    struct graph_args args;
    size_t batch;
    bool profile;
    pthread_barrier_t *barrier;
    double rates[REPETITIONS]; /* by the wall clock */
    double own[REPETITIONS];   /* by the time that the thread computed */
    struct graph_memory memory;
    enum status st;
};

static void pin(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    (void)sched_setaffinity(0, sizeof set, &set);
}

static void fill(float *x, size_t n)
{
    uint32_t r = 12345;

    for (size_t i = 0; i < n; i++) {
        r = r * 1664525u + 1013904223u;
        x[i] = (float)(r >> 8) / (float)(1 << 23) - 1.0f;
    }
}

static enum status steps(struct graph *g, const float *x, const int32_t *labels, size_t batch,
                         int n)
{
    struct graph_result r;

    for (int i = 0; i < n; i++) {
        graph_params_changed(g);
        TRY(graph_forward(g, x, labels, batch, true, (uint64_t)i, NULL, &r));
        TRY(graph_backward(g, 1.0f, NULL));
    }
    return ST_OK;
}

static void print_profile(const struct graph *g, int n)
{
    static const char *const layouts[] = {"nchw", "nhwc", "blocked"};

    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *k = &g->nodes[i];
        printf("%-20s %-8s fwd %9.1f us  bwd-data %9.1f us  bwd-weights %9.1f us\n",
               k->op_node.layer->name, layouts[g->values[k->op_node.output].layout],
               (double)k->spent_ns[0] / 1e3 / n, (double)k->spent_ns[1] / 1e3 / n,
               (double)k->spent_ns[2] / 1e3 / n);
    }
}

static enum status run(struct job *j, struct graph *g, float *params, float *grads, float *x,
                       int32_t *labels)
{
    struct shape in = net_layer(j->args.net, 0)->out;
    int64_t start, own;
    int n;

    fill(x, j->batch * in.c * in.h * in.w);
    graph_init_params(g, 1, params);
    graph_bind(g, params, grads);
    TRY(steps(g, x, labels, j->batch, 2));
    start = clock_now_ns();
    TRY(steps(g, x, labels, j->batch, 1));
    n = 1 + (int)(5e8 / (double)(clock_now_ns() - start));
    for (int r = 0; r < REPETITIONS; r++) {
        pthread_barrier_wait(j->barrier);
        own = clock_thread_ns();
        start = clock_now_ns();
        TRY(steps(g, x, labels, j->batch, n));
        j->own[r] = (double)n * (double)j->batch / ((double)(clock_thread_ns() - own) * 1e-9);
        j->rates[r] = (double)n * (double)j->batch / ((double)(clock_now_ns() - start) * 1e-9);
    }
    if (j->profile && j->args.rank == 0) {
        g->timed = true;
        TRY(steps(g, x, labels, j->batch, n));
        print_profile(g, n);
    }
    return ST_OK;
}

static void *device(void *ctx)
{
    struct job *j = ctx;
    struct shape in = net_layer(j->args.net, 0)->out;
    struct graph *g = NULL;

    pin(j->args.rank);
    j->st = graph_create(&j->args, &g);
    if (j->st == ST_OK) {
        float *params = mem_alloc(graph_arena_n(g), sizeof *params);
        float *grads = mem_alloc(graph_arena_n(g), sizeof *grads);
        float *x = mem_alloc(j->batch * in.c * in.h * in.w, sizeof *x);
        int32_t *labels = mem_alloc(j->batch, sizeof *labels);
        j->memory = graph_memory(g);
        j->st = run(j, g, params, grads, x, labels);
        mem_free(params);
        mem_free(grads);
        mem_free(x);
        mem_free(labels);
    }
    graph_destroy(g);
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static int print_rates(struct job *jobs, int devices)
{
    double total = 0.0;

    for (int d = 0; d < devices; d++) {
        if (jobs[d].st != ST_OK) {
            return EXIT_FAILURE;
        }
        qsort(jobs[d].rates, REPETITIONS, sizeof(double), by_value);
        total += jobs[d].rates[REPETITIONS / 2];
        qsort(jobs[d].own, REPETITIONS, sizeof(double), by_value);
        printf("device %d: %.1f images/s (%.1f to %.1f); per second computed %.1f (%.1f to %.1f)\n",
               d, jobs[d].rates[REPETITIONS / 2], jobs[d].rates[0], jobs[d].rates[REPETITIONS - 1],
               jobs[d].own[REPETITIONS / 2], jobs[d].own[0], jobs[d].own[REPETITIONS - 1]);
    }
    printf("total %.1f images/s; MiB per device: activations %.1f, gradients %.1f, workspace %.1f, "
           "weights %.1f\n",
           total, (double)jobs[0].memory.activations / 1048576.0,
           (double)jobs[0].memory.gradients_of_activations / 1048576.0,
           (double)jobs[0].memory.workspace / 1048576.0,
           (double)jobs[0].memory.derived_weights / 1048576.0);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct config_model model = {.shortcut = (char[]){"projection"}};
    pthread_t threads[MAX_DEVICES];
    static struct job jobs[MAX_DEVICES];
    pthread_barrier_t barrier;
    struct tuning *tuning;
    struct net *net;
    size_t batch;
    int devices;

    if (argc < 6) {
        fprintf(stderr,
                "usage: %s MODEL CHANNELS SIZE CLASSES BATCH [fp32|bf16] [DEVICES] [CACHE] "
                "[profile]\n",
                argv[0]);
        return EXIT_FAILURE;
    }
    model.name = argv[1];
    batch = (size_t)strtoul(argv[5], NULL, 10);
    devices = argc > 7 ? (int)strtol(argv[7], NULL, 10) : 1;
    struct shape in = {(size_t)strtoul(argv[2], NULL, 10), (size_t)strtoul(argv[3], NULL, 10),
                       (size_t)strtoul(argv[3], NULL, 10)};
    if (model_create(&model, in, (int)strtol(argv[4], NULL, 10), &net) != ST_OK ||
        tuning_create(argc > 8 ? argv[8] : NULL, &tuning) != ST_OK || devices > MAX_DEVICES) {
        return EXIT_FAILURE;
    }
    pthread_barrier_init(&barrier, NULL, (unsigned)devices);
    for (int d = 0; d < devices; d++) {
        jobs[d].args = (struct graph_args){
            .net = net,
            .ops = nn_ops_find("cpu"),
            .tuning = tuning,
            .batches = &jobs[d].batch,
            .n_batches = 1,
            .training = true,
            .compute = argc > 6 && strcmp(argv[6], "bf16") == 0 ? GRAPH_BF16 : GRAPH_FP32,
            .n_threads = 1,
            .rank = d};
        jobs[d].batch = batch;
        jobs[d].profile = argc > 9;
        jobs[d].barrier = &barrier;
        pthread_create(&threads[d], NULL, device, &jobs[d]);
    }
    for (int d = 0; d < devices; d++) {
        pthread_join(threads[d], NULL);
    }
    printf("%s, %s, batch %zu\n", argv[1], nn_ops_version(nn_ops_find("cpu")), batch);
    tuning_destroy(tuning);
    net_destroy(net);
    return print_rates(jobs, devices);
}
