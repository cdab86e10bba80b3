#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "base/mem.h"
#include "train/crew.h"
#include "train/meeting.h"

enum {
    ROUNDS = 2000,
    MAX_RANKS = 8
};

struct party {
    struct meeting meeting;
    int n;
    int written[MAX_RANKS];
    atomic_int wrong;
    pthread_t self[MAX_RANKS];
};

static void note_thread(void *ctx, int rank)
{
    struct party *m = ctx;

    m->self[rank] = pthread_self();
}

static void check_thread(void *ctx, int rank)
{
    struct party *m = ctx;

    m->wrong += !pthread_equal(m->self[rank], pthread_self());
}

Test(crew, a_rank_keeps_its_thread)
{
    for (int n = 1; n <= MAX_RANKS; n++) {
        struct party m = {.n = n};
        struct crew *c;
        cr_assert_eq(crew_create(n, NULL, &c), ST_OK);
        crew_run(c, note_thread, &m);
        for (int i = 0; i < 50; i++) {
            crew_run(c, check_thread, &m);
        }
        for (int i = 1; i < n; i++) {
            cr_assert(!pthread_equal(m.self[0], m.self[i]));
        }
        cr_assert_eq(m.wrong, 0);
        crew_destroy(c);
    }
}

static void check_core(void *ctx, int rank)
{
    struct party *m = ctx;
    cpu_set_t mine;

    m->wrong += sched_getaffinity(0, sizeof mine, &mine) != 0 || CPU_COUNT(&mine) != 1 ||
                !CPU_ISSET(m->written[rank], &mine);
}

Test(crew, threads_stay_on_their_cores)
{
    struct party m = {.n = 2};
    cpu_set_t all, sets[2];
    struct crew *c;
    int core = 0;

    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    for (int r = 0; r < 2; r++) { /* the same core twice where there is only one */
        for (core = r == 0 || CPU_COUNT(&all) == 1 ? 0 : core + 1; !CPU_ISSET(core, &all);) {
            core++;
        }
        CPU_ZERO(&sets[r]);
        CPU_SET(core, &sets[r]);
        m.written[r] = core;
    }
    cr_assert_eq(crew_create(2, sets, &c), ST_OK);
    crew_run(c, check_core, &m);
    cr_assert_eq(m.wrong, 0);
    crew_destroy(c);
}

/* After each meeting everybody sees what everybody wrote before it. */
static void meet_often(void *ctx, int rank)
{
    struct party *m = ctx;

    for (int round = 1; round <= ROUNDS; round++) {
        unsigned id;
        m->written[rank] = round;
        id = meeting_arrive(&m->meeting, rank);
        m->wrong += meeting_wait(&m->meeting, id, 60) != ST_OK;
        for (int k = 0; k < m->n; k++) {
            m->wrong += m->written[k] != round;
        }
        m->wrong += meeting_pass(&m->meeting, rank, 60) != ST_OK;
    }
}

Test(crew, a_meeting_waits_for_all)
{
    for (int n = 1; n <= MAX_RANKS; n++) {
        for (int spin = 0; spin < 2; spin++) {
            struct party m = {.n = n};
            struct crew *c;
            cr_assert_eq(meeting_init(&m.meeting, n, spin != 0 && n <= 2), ST_OK);
            cr_assert_eq(crew_create(n, NULL, &c), ST_OK);
            crew_run(c, meet_often, &m);
            cr_assert_eq(m.wrong, 0);
            crew_destroy(c);
            meeting_fini(&m.meeting);
        }
    }
}

/* All but the last thread come; one of them breaks the meeting, and nobody waits after that. */
static void wait_in_vain(void *ctx, int rank)
{
    struct party *m = ctx;
    unsigned round;
    enum status st;

    if (rank == m->n - 1) {
        return;
    }
    round = meeting_arrive(&m->meeting, rank);
    st = meeting_wait(&m->meeting, round, 0.05);
    m->written[rank] = st;
    m->wrong += meeting_pass(&m->meeting, rank, 1e6) != ST_PEER;
}

Test(crew, a_meeting_is_broken_by_one_who_waits_in_vain)
{
    for (int n = 2; n <= MAX_RANKS; n++) {
        struct party m = {.n = n};
        struct crew *c;
        char missing[32], want[32];
        int breakers = 0;

        cr_assert_eq(meeting_init(&m.meeting, n, n % 2 == 0), ST_OK);
        cr_assert_eq(crew_create(n, NULL, &c), ST_OK);
        crew_run(c, wait_in_vain, &m);
        for (int r = 0; r + 1 < n; r++) {
            cr_assert(m.written[r] == ST_TIMEOUT || m.written[r] == ST_PEER);
            breakers += m.written[r] == ST_TIMEOUT;
        }
        cr_assert_eq(breakers, 1);
        cr_assert_eq(m.wrong, 0);
        cr_assert(meeting_is_broken(&m.meeting));
        (void)snprintf(want, sizeof want, "%d", n - 1);
        cr_assert_str_eq(meeting_missing(&m.meeting, 0, missing, sizeof missing), want);
        crew_destroy(c);
        meeting_fini(&m.meeting);
    }
}

static atomic_bool let_go;

static void hang(void *ctx, int rank)
{
    (void)ctx;
    while (rank == 1 && !atomic_load(&let_go)) {
        const struct timespec moment = {0, 1000000};
        (void)nanosleep(&moment, NULL);
    }
}

static bool always(void *ctx)
{
    (void)ctx;
    return true;
}

static bool never(void *ctx)
{
    atomic_store(&let_go, true);
    (void)ctx;
    return false;
}

Test(crew, a_run_can_end_without_a_thread)
{
    struct crew *c;

    cr_assert_eq(crew_create(3, NULL, &c), ST_OK);
    cr_assert_eq(crew_run_until(c, hang, NULL, never, 0), ST_OK, "hope is asked for again");
    cr_assert_not(crew_is_busy(c, 1));
    atomic_store(&let_go, false);
    cr_assert_eq(crew_run_until(c, hang, NULL, always, 0.1), ST_TIMEOUT);
    cr_assert(crew_is_busy(c, 1));
    cr_assert_not(crew_is_busy(c, 0));
    atomic_store(&let_go, true);
    while (crew_is_busy(c, 1)) {
        const struct timespec moment = {0, 1000000};
        (void)nanosleep(&moment, NULL);
    }
    crew_destroy(c); /* it came back after all */
}

Test(crew, allocations_may_fail)
{
    struct crew *c = NULL;

    for (size_t k = 1; k <= 2; k++) {
        mem_fail_at(k);
        cr_assert_eq(crew_create(2, NULL, &c), ST_NOMEM);
        mem_fail_at(0);
        cr_assert_eq(mem_live(), 0);
    }
}
