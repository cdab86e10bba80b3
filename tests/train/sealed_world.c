/* What tests set and ask of the sealed devices, in one place for all sets. */
#include <stdio.h>

#include "sealed_internal.h"

struct sealed_world sealed_world = {.lock = PTHREAD_MUTEX_INITIALIZER, .align = 64};

const struct nn_ops *sealed_host_ops(void)
{
    return nn_ops_find("cpu");
}

void sealed_fault(const char *what)
{
    fprintf(stderr, "sealed: %s\n", what);
    sealed_world.faults++;
}

void sealed_set_align(size_t bytes)
{
    sealed_world.align = bytes;
}

void sealed_seed(uint64_t seed)
{
    sealed_world.rng = rng_make(seed, RNG_TEST, 0);
    sealed_world.drawn = 0;
    sealed_world.sluggish = seed % 2 == 0;
}

size_t sealed_faults(void)
{
    return sealed_world.faults;
}

size_t sealed_stops(void)
{
    return sealed_world.stops;
}

size_t sealed_near_waits(void)
{
    return sealed_world.near;
}

void sealed_drop_wait(size_t k)
{
    sealed_world.waits = 0;
    sealed_world.drop = k;
}

size_t sealed_n_waits(void)
{
    return sealed_world.waits;
}

void sealed_bake(bool on)
{
    sealed_world.bake = on;
}
