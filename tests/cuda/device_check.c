/*
 * usage: device_check cpu|cuda [small]
 * What scripts/gpu-check runs on a device: its memory, streams and kernels against the same kernels
 * as C, all backends over 2 to 8 ranks of one device and of all devices, the times of buckets, and
 * how fast its memory moves. One line for each check: <name> ok|FAILED <key>=<value> ... Ends with
 * 1 if one failed, with 77 if there is no such device. `small` leaves out the measurements, for
 * sanitizers.
 */
#include "device_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

void check_expect(enum status st, const char *what)
{
    if (st != ST_OK) {
        fprintf(stderr, "device_check: %s: %s\n", what, status_text(st));
        exit(1);
    }
}

bool check_report(const char *name, const struct check *c, size_t n_cases)
{
    printf("%s %s cases=%zu wrong=%zu\n", name, c->n_wrong == 0 ? "ok" : "FAILED", n_cases,
           c->n_wrong);
    (void)fflush(stdout);
    return c->n_wrong == 0;
}

void *check_memory(const struct check *c, int rank, size_t bytes)
{
    void *p = NULL;

    check_expect(c->d->alloc(c->set, rank, bytes, &p), "memory of the device");
    return p;
}

void check_move(const struct check *c, void *dst, const void *src, size_t bytes)
{
    check_expect(c->d->copy(c->set, c->stream, dst, src, bytes), "a copy");
    check_expect(c->d->stream_sync(c->set, c->stream), "waiting for a copy");
}

/* --- measurements --- */

/* Seconds of `n` copies of `bytes`, or sums into one of two. */
static double time_memory(const struct check *c, bool fold, void *a, void *b, size_t bytes, int n)
{
    struct device_fold f = {
        .src = {a, b}, .dst = {b}, .n_src = 2, .n_dst = 1, .n = bytes / sizeof(float)};
    double begin;

    check_expect(c->d->stream_sync(c->set, c->stream), "waiting");
    begin = clock_now_s();
    for (int i = 0; i < n; i++) {
        check_expect(fold ? c->d->fold(c->set, c->stream, &f)
                          : c->d->copy(c->set, c->stream, b, a, bytes),
                     "moving memory");
    }
    check_expect(c->d->stream_sync(c->set, c->stream), "waiting");
    return clock_now_s() - begin;
}

static void measure_memory(const struct check *c, size_t bytes)
{
    void *a = check_memory(c, 0, bytes), *b = check_memory(c, 0, bytes);
    double copy_s, fold_s;
    int n = 20;

    (void)time_memory(c, false, a, b, bytes, 2);
    (void)time_memory(c, true, a, b, bytes, 2);
    copy_s = time_memory(c, false, a, b, bytes, n) / n;
    fold_s = time_memory(c, true, a, b, bytes, n) / n;
    printf("memory ok copy_gbs=%.1f fold_gbs=%.1f ratio=%.3f\n", 2e-9 * (double)bytes / copy_s,
           3e-9 * (double)bytes / fold_s, 1.5 * copy_s / fold_s);
    c->d->release(c->set, 0, a);
    c->d->release(c->set, 0, b);
}

/* Ranks on one device after the other, where there are several. */
static bool check_devices(const struct check *one, int n_devices, bool small)
{
    struct check c = *one;
    int devices[MAX_RANKS];
    bool ok;

    c.n_wrong = 0;
    if (n_devices < 2) {
        return check_report("collectives_devices", &c, 0);
    }
    for (int r = 0; r < MAX_RANKS; r++) {
        devices[r] = r % n_devices;
    }
    check_expect(c.d->open(devices, MAX_RANKS, &c.set), "opening all devices");
    check_expect(c.d->stream_create(c.set, 0, &c.stream), "a stream");
    ok = check_collectives("collectives_devices", &c, small);
    c.d->stream_destroy(c.set, c.stream);
    c.d->close(c.set);
    return ok;
}

static bool reaches_itself(void *set, int rank, int peer)
{
    (void)set;
    return rank == peer;
}

int main(int argc, char **argv)
{
    const int devices[MAX_RANKS] = {0};
    struct check c = {0};
    bool small = argc > 2 && strcmp(argv[2], "small") == 0, ok;
    void *host = NULL, *want = NULL;
    int n;

    if (argc < 2) {
        fprintf(stderr, "usage: device_check cpu|cuda [small]\n");
        return 2;
    }
    if (device_find(argv[1], &c.d) != ST_OK || c.d->count(&n) != ST_OK) {
        return 77;
    }
    c.alone = *c.d;
    c.alone.reaches = reaches_itself;
    check_expect(c.d->open(devices, MAX_RANKS, &c.set), "opening the device");
    check_expect(c.d->stream_create(c.set, 0, &c.stream), "a stream");
    check_expect(c.d->alloc_host(c.set, MAX_N * sizeof(float) + 64, &host), "memory of the host");
    check_expect(c.d->alloc_host(c.set, MAX_N * sizeof(float) + 64, &want), "memory of the host");
    c.host = host;
    c.want = want;
    printf("device ok count=%d version=%s\n", n, c.d->version());
    ok = check_folds(&c);
    ok = check_sgd(&c) && ok;
    ok = check_numbers(&c) && ok;
    ok = check_collectives("collectives", &c, small) && ok;
    ok = check_devices(&c, n, small) && ok;
    ok = check_times(&c) && ok;
    if (!small) {
        measure_memory(&c, strcmp(argv[1], "cpu") == 0 ? 16 << 20 : (size_t)1 << 30);
        measure_allreduce(&c, "allreduce_small", 8);
        measure_allreduce(&c, "allreduce_large", strcmp(argv[1], "cpu") == 0 ? 4 << 20 : 256 << 20);
    }
    c.d->release_host(c.set, host);
    c.d->release_host(c.set, want);
    c.d->stream_destroy(c.set, c.stream);
    c.d->close(c.set);
    return ok ? 0 : 1;
}
