#include "nn/cudnn/cd_contest.h"

#include <stdio.h>

enum {
    REPEATS = 3,
    ANY_BYTE = 0x3c /* repeated, it is a small number in every type */
};
static const int64_t failed_ns = INT64_MAX / 2;

struct arena {
    void *memory[3], *work;
    cudaEvent_t from, to;
};

static void arena_fini(struct arena *a)
{
    for (int i = 0; i < 3; i++) {
        (void)cudaFree(a->memory[i]); /* takes NULL */
    }
    (void)cudaFree(a->work);
    if (a->from != NULL) {
        (void)cudaEventDestroy(a->from);
    }
    if (a->to != NULL) {
        (void)cudaEventDestroy(a->to);
    }
    (void)cudaGetLastError(); /* so that no later call reports it again */
}

static bool arena_init(struct arena *a, const struct cd_contest *c, size_t work_bytes)
{
    bool good = cudaMalloc(&a->work, work_bytes > 0 ? work_bytes : 1) == cudaSuccess &&
                cudaEventCreate(&a->from) == cudaSuccess && cudaEventCreate(&a->to) == cudaSuccess;

    for (int i = 0; i < 3 && good; i++) {
        good = cudaMalloc(&a->memory[i], c->bytes[i]) == cudaSuccess &&
               cudaMemsetAsync(a->memory[i], ANY_BYTE, c->bytes[i], c->lib->stream) == cudaSuccess;
    }
    return good;
}

/* One run; its time, or that of a failure. */
static int64_t time_once(const struct cd_contest *c, const struct cd_candidate *k,
                         const struct arena *a)
{
    float ms = 0;

    if (cudaEventRecord(a->from, c->lib->stream) != cudaSuccess ||
        c->run(c->ctx, k->algorithm, a->memory, a->work, k->work_bytes) != CUDNN_STATUS_SUCCESS ||
        cudaEventRecord(a->to, c->lib->stream) != cudaSuccess ||
        cudaEventSynchronize(a->to) != cudaSuccess ||
        cudaEventElapsedTime(&ms, a->from, a->to) != cudaSuccess) {
        (void)cudaGetLastError();
        return failed_ns;
    }
    return (int64_t)((double)ms * 1e6) + 1;
}

/* The first run loads kernels, and does not count. */
static int64_t time_candidate(const struct cd_contest *c, const struct cd_candidate *k,
                              const struct arena *a)
{
    int64_t best = time_once(c, k, a);

    if (best == failed_ns) {
        return failed_ns;
    }
    best = failed_ns;
    for (int i = 0; i < REPEATS; i++) {
        int64_t ns = time_once(c, k, a);
        best = ns < best ? ns : best;
    }
    return best;
}

static void make_key(const struct cd_contest *c, const struct cd_candidate *k,
                     char key[TUNING_KEY_BYTES])
{
    (void)snprintf(key, TUNING_KEY_BYTES, "%s | %d", c->key, k->algorithm);
}

/* Enter the times that are missing; false if they cannot be measured. */
static enum status measure(const struct cd_contest *c, const struct cd_candidate *all, int n,
                           bool *measured)
{
    struct arena a = {.work = NULL};
    enum status st = ST_OK;
    size_t most = 0;

    for (int k = 0; k < n; k++) {
        most = all[k].work_bytes > most ? all[k].work_bytes : most;
    }
    *measured = arena_init(&a, c, most);
    for (int k = 0; k < n && *measured && st == ST_OK; k++) {
        char key[TUNING_KEY_BYTES];
        int64_t ns;
        make_key(c, &all[k], key);
        if (!tuning_find(c->env->tuning, key, &ns)) {
            st = tuning_put(c->env->tuning, key, time_candidate(c, &all[k], &a));
        }
    }
    arena_fini(&a);
    if (*measured && st == ST_OK) {
        tuning_save(c->env->tuning);
    }
    return st;
}

/* The fastest by the tuning, or -1 if it lacks one. */
static int look_up(const struct cd_contest *c, const struct cd_candidate *all, int n)
{
    int64_t least = INT64_MAX;
    int best = -1;

    for (int k = 0; k < n; k++) {
        char key[TUNING_KEY_BYTES];
        int64_t ns;
        make_key(c, &all[k], key);
        if (!tuning_find(c->env->tuning, key, &ns)) {
            return -1;
        }
        if (ns < least) {
            least = ns;
            best = k;
        }
    }
    return best;
}

enum status cd_contest_best(const struct cd_contest *c, const struct cd_candidate *all, int n,
                            int *best)
{
    bool measured;
    int found = n > 1 ? look_up(c, all, n) : 0;

    if (found < 0 && tuning_may_time(c->env->tuning)) {
        tuning_announce(c->env->tuning);
        TRY(measure(c, all, n, &measured));
        found = measured ? look_up(c, all, n) : -1;
    }
    *best = found < 0 ? 0 : found;
    return ST_OK;
}
