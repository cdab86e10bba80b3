#ifndef TESTS_COMM_WORLD_H
#define TESTS_COMM_WORLD_H

#include "grid.h"

/* A communicator with its arenas, and ranks that are threads. */
enum {
    N_BUCKETS = 5
};

struct world {
    struct config_comm cfg;
    struct topo *topo;
    struct comm *comm;
    struct comm_bucket buckets[N_BUCKETS];
    float *arenas[16];
    size_t n;
    int n_ranks;
};

struct config_comm world_config(const char *backend);

/* Everything but the communicator, with buckets of very different sizes, an empty one among them.
 */
void world_init(struct world *w, const char *backend, int n_ranks);
struct comm_args world_args(struct world *w);
void world_start(struct world *w);
void world_fini(struct world *w);

struct world_rank {
    struct world *w;
    int rank, steps;
    size_t wrong;
    enum status st;
    enum status (*body)(struct world_rank *);
};

/* Run `body` on every rank at once, until all have ended. */
void world_run(struct world *w, struct world_rank *ranks, int steps,
               enum status (*body)(struct world_rank *));

/* What `rank` contributes in a step at element i of its arena. */
float world_value(int step, int rank, size_t i);

/* Elements of a bucket that are not the sum over all ranks. */
size_t world_wrong(const struct world *w, int step, int rank, const struct comm_bucket *b);

/* A body: every rank posts and waits in an order of its own; counts what is wrong. */
enum status world_train(struct world_rank *r);

#endif
