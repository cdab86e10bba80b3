#include "nccl_world.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "grid.h"

atomic_bool nccl_world_stuck;

static enum status count_eight(int *n)
{
    *n = MAX_RANKS;
    return ST_OK;
}

static enum status done_unless_stuck(void *set, void *event, bool *out)
{
    (void)set;
    (void)event;
    *out = !nccl_world_stuck;
    return ST_OK;
}

static void make_args(struct nccl_world *w)
{
    w->cfg = (struct config_comm){.backend = (char *)"nccl",
                                  .nccl = (char *)NCCL_DOUBLE,
                                  .nccl_log = (char *)"",
                                  .overlap = true,
                                  .chunks = (char *)"",
                                  .timeout_s = 5,
                                  .plan = (char *)"",
                                  .wire = (char *)"fp32",
                                  .fabric = (char *)"memory",
                                  .order = (char *)"fifo",
                                  .sync = (char *)"allreduce"};
    w->args = (struct comm_args){.cfg = &w->cfg,
                                 .topo = w->topo,
                                 .n_ranks = w->n_ranks,
                                 .arenas = w->arenas,
                                 .places = w->places,
                                 .buckets = w->buckets,
                                 .n_buckets = N_BUCKETS};
}

void nccl_world_init(struct nccl_world *w, int n_ranks)
{
    static const int zeros[MAX_RANKS] = {0};
    static const size_t sizes[N_BUCKETS] = {1000, 1, 0, 77};

    *w = (struct nccl_world){.device = device_cpu, .n_ranks = n_ranks};
    w->device.count = count_eight;
    w->device.done = done_unless_stuck;
    cr_assert_eq(device_cpu.open(zeros, n_ranks, &w->set), ST_OK);
    w->topo = grid_mesh(n_ranks);
    for (size_t b = 0; b < N_BUCKETS; b++) {
        w->buckets[b] = (struct comm_bucket){w->n, sizes[b], "conv1"};
        w->n += sizes[b];
    }
    for (int r = 0; r < n_ranks; r++) {
        w->arenas[r] = mem_alloc(w->n, sizeof(float));
        w->places[r] =
            (struct device_place){.ops = &w->device, .set = w->set, .rank = r, .device = r};
        cr_assert_eq(device_cpu.stream_create(w->set, r, &w->places[r].stream), ST_OK);
    }
    make_args(w);
}

void nccl_world_fini(struct nccl_world *w)
{
    comm_destroy(w->comm);
    for (int r = 0; r < w->n_ranks; r++) {
        device_cpu.stream_destroy(w->set, w->places[r].stream);
        mem_free(w->arenas[r]);
    }
    device_cpu.close(w->set);
    topo_destroy(w->topo);
    cr_assert_eq(mem_live(), 0);
}

void nccl_world_message(const char *const *words)
{
    char text[4096] = "";

    fflush(stderr);
    (void)!fread(text, 1, sizeof text - 1, cr_get_redirected_stderr());
    for (; *words != NULL; words++) {
        cr_assert(strstr(text, *words) != NULL, "no '%s' in: %s", *words, text);
    }
}
