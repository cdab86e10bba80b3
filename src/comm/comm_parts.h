#ifndef COMM_COMM_PARTS_H
#define COMM_COMM_PARTS_H

#include "comm/chunks.h"
#include "comm/comm.h"
#include "comm/cost.h"
#include "comm/program.h"
#include "comm/wire.h"

/* The plans and programs of a communicator: everything that is made before anything runs. */
struct comm_part { /* of one bucket */
    struct comm_sink sink;
    size_t offset; /* of the bucket in the arena */
    const struct plan *plan;
    struct program *program;         /* NCCL: without operations */
    struct program_buffers *buffers; /* [n_nodes] */
    char *label;
    size_t bytes;
    double predicted_s; /* by the cost model; 0 if it was not asked */
};

struct comm_choice { /* messages of up to `bytes` are moved by `plan` */
    size_t bytes;
    struct plan *plan;
    char *reason; /* NULL: it was asked for */
};

struct comm_parts {
    struct comm_part *parts; /* [n_parts] */
    size_t n_parts;
    struct comm_choice *choices; /* ascending */
    size_t n_choices;
    struct cost_model model;
    struct chunk_rules chunks;
    struct wire wire;
};

/* Are the buckets left to NCCL? */
bool comm_uses_nccl(const struct comm_args *args);

/* What of that needs no buckets, released again. Errors: ST_INPUT, ST_NOMEM. */
MUST_CHECK enum status comm_parts_try(const struct comm_args *args);

/* Errors: ST_INPUT, ST_NOMEM. `out` may then only be released. */
MUST_CHECK enum status comm_parts_init(struct comm_parts *out, const struct comm_args *args);
void comm_parts_fini(struct comm_parts *p); /* takes zeroed and half-built ones */

#endif
