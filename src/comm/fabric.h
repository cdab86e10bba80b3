#ifndef COMM_FABRIC_H
#define COMM_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "comm/program.h"
#include "topo/topo.h"

/*
 * The timing of links: which message goes when, and when it arrives. Nothing here looks at a clock
 * or moves a byte; given the same messages at the same times, the same comes out.
 *
 * A link serves one message at a time. One of n bytes keeps it busy for a + n b + n c: a is the
 * start-up, 1/b the link's capacity, c the cost of adding a byte up where it arrives, if it is
 * added up. The first byte comes out at once, or rather a latency later, and waits for the next
 * link of the path, if there is one; the last byte follows, no faster than the slowest link is. So
 * a message alone takes a + n b + n c over the slowest link, plus all latencies, which keep no link
 * busy.
 *
 * Of those that wait for a link, first comes the job with the lowest turn, then the lowest chunk,
 * so that trees that share a link advance alike, then what most has to follow. Messages of one
 * round (program.h) that wait for the same path go as one: they pay one start-up and arrive
 * together.
 *
 * Times are integers, in picoseconds from any origin, so that equal times are equal. They end after
 * some 53 days: what would come later comes then.
 */
struct fabric;

#define FABRIC_END_PS (INT64_MAX / 2)

/* `s` seconds, 0 or more, after `when_ps`, at the latest at the end. */
int64_t fabric_later(int64_t when_ps, double s);

struct fabric_model {
    const struct topo *topo;  /* must outlive the fabric */
    double scale;             /* all times are so many times those of the topology and below */
    double startup_s;         /* a */
    double reduce_s_per_byte; /* c */
    size_t credit_bytes;      /* that may be served and not yet arrived; 0: any */
};

/* One operation on one chunk. `turn` may be anything. */
struct fabric_message {
    const struct program *program;
    size_t job, turn, tree, chunk, op;
};

struct fabric_event {
    int64_t when_ps;
    bool arrived; /* else it has left its sender: the operation's next chunk may come */
    struct fabric_message message;
};

/* Room for `n_messages` that are posted and have not arrived. Errors: ST_NOMEM. */
MUST_CHECK enum status fabric_create(const struct fabric_model *m, size_t n_messages,
                                     struct fabric **out);
void fabric_destroy(struct fabric *f); /* takes NULL */

/* The message is ready at `when_ps`, or at the time of the latest event if that is later. */
void fabric_post(struct fabric *f, const struct fabric_message *m, int64_t when_ps);

/*
 * The next event, if there is one by `until_ps`: every message leaves and then arrives. What is
 * posted in answer to an event is ready at its time, and is served with all else that is ready
 * then: no message is served before a time later than that is asked for.
 */
bool fabric_next(struct fabric *f, int64_t until_ps, struct fabric_event *out);

/* When to call fabric_next again, if nothing is posted meanwhile; false if there is nothing to
 * come. */
bool fabric_when(const struct fabric *f, int64_t *when_ps);

#endif
