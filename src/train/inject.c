#include "train/inject.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

static const char *const kinds[INJECT_KINDS] = {"nan",   "weight", "fail",    "kill",
                                                "stall", "slow",   "corrupt", "skip"};

/* Cut `part` at the first `mark`; false if there is none. */
static bool cut(char *part, char mark, char **rest)
{
    char *at = strchr(part, mark);

    if (at == NULL) {
        return false;
    }
    *at = '\0';
    *rest = at + 1;
    return true;
}

static bool parse_kind(const char *text, enum inject_kind *out)
{
    int kind = 0;

    while (kind < INJECT_KINDS && strcmp(text, kinds[kind]) != 0) {
        kind++;
    }
    *out = (enum inject_kind)kind;
    return kind < INJECT_KINDS;
}

/* "30s", "5ms" */
static bool parse_duration(char *text, double *out)
{
    const size_t n = strlen(text);
    const bool ms = n > 2 && strcmp(text + n - 2, "ms") == 0;

    if (n < 2 || text[n - 1] != 's') {
        return false;
    }
    text[n - (ms ? 2 : 1)] = '\0';
    if (!text_to_double(text, out) || *out < 0 || *out > 1e6) {
        return false;
    }
    *out *= ms ? 1e-3 : 1;
    return true;
}

static bool parse_step(const char *text, struct inject_fault *f)
{
    int64_t step;

    f->every = strcmp(text, "*") == 0;
    if (f->every) {
        return true;
    }
    if (!text_to_i64(text, &step) || step < 1) {
        return false;
    }
    f->step = (uint64_t)step - 1;
    return true;
}

/* Does a fault of this kind fit with or without a duration? */
static bool duration_fits(enum inject_kind kind, bool given)
{
    return kind == INJECT_STALL || given == (kind == INJECT_SLOW);
}

static bool parse_one(char *part, int n_ranks, struct inject *out)
{
    struct inject_fault f = {.duration_s = INFINITY};
    char *rank_text, *step_text, *duration = NULL;
    int64_t rank;
    bool given;

    while (*part == ' ') {
        part++;
    }
    if (!cut(part, ':', &rank_text) || !cut(rank_text, '@', &step_text)) {
        return false;
    }
    given = cut(step_text, ':', &duration);
    if (!parse_kind(part, &f.kind) || !text_to_i64(rank_text, &rank) || rank < 0 ||
        rank >= n_ranks || !parse_step(step_text, &f) || out->n == INJECT_MAX ||
        !duration_fits(f.kind, given) || (given && !parse_duration(duration, &f.duration_s))) {
        return false;
    }
    f.rank = (int)rank;
    out->faults[out->n++] = f;
    return true;
}

enum status inject_parse(const char *text, int n_ranks, struct inject *out)
{
    struct inject found = {.n = 0};
    const char *from = text;

    while (*from != '\0') {
        size_t n = strcspn(from, ",");
        char part[64];
        if (n >= sizeof part) {
            break;
        }
        memcpy(part, from, n);
        part[n] = '\0';
        if (!parse_one(part, n_ranks, &found) || strcmp(from + n, ",") == 0) {
            break;
        }
        from += n + (from[n] == ',');
    }
    if (*from != '\0') {
        return log_fail(ST_INPUT,
                        "bad fault '%.60s', [debug] inject, give kind:rank@step or "
                        "kind:rank@step:duration, at most %d of them, with nan, weight, fail, "
                        "kill, stall, slow, corrupt or skip, a rank below %d, a step from 1 or *, "
                        "and for stall and slow a duration like 30s or 5ms",
                        from, INJECT_MAX, n_ranks);
    }
    *out = found;
    return ST_OK;
}

static bool matches(const struct inject_fault *f, enum inject_kind kind, int rank, uint64_t step)
{
    return f->kind == kind && f->rank == rank && (f->every || f->step == step);
}

bool inject_has(const struct inject *i, enum inject_kind kind)
{
    for (size_t k = 0; k < i->n; k++) {
        if (i->faults[k].kind == kind) {
            return true;
        }
    }
    return false;
}

bool inject_due(const struct inject *i, enum inject_kind kind, int rank, uint64_t step)
{
    for (size_t k = 0; k < i->n; k++) {
        if (matches(&i->faults[k], kind, rank, step)) {
            return true;
        }
    }
    return false;
}

double inject_pause_s(const struct inject *i, int rank, uint64_t step)
{
    double sum = 0;

    for (size_t k = 0; k < i->n; k++) {
        if (matches(&i->faults[k], INJECT_STALL, rank, step) ||
            matches(&i->faults[k], INJECT_SLOW, rank, step)) {
            sum += i->faults[k].duration_s;
        }
    }
    return sum;
}
