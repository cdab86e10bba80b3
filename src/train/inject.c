#include "train/inject.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"

static const char *const kinds[INJECT_KINDS] = {"nan", "weight", "fail", "stall"};

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

static bool parse_one(char *part, int n_ranks, struct inject *out)
{
    char *rank_text, *step_text;
    int64_t rank, step;
    int kind = 0;

    while (*part == ' ') {
        part++;
    }
    if (!cut(part, '@', &rank_text) || !cut(rank_text, ':', &step_text) ||
        !text_to_i64(rank_text, &rank) || !text_to_i64(step_text, &step) || rank < 0 ||
        rank >= n_ranks || step < 1 || out->n == INJECT_MAX) {
        return false;
    }
    while (kind < INJECT_KINDS && strcmp(part, kinds[kind]) != 0) {
        kind++;
    }
    if (kind == INJECT_KINDS) {
        return false;
    }
    out->faults[out->n].kind = (enum inject_kind)kind;
    out->faults[out->n].rank = (int)rank;
    out->faults[out->n].step = (uint64_t)step - 1;
    out->n++;
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
        if (!parse_one(part, n_ranks, &found)) {
            break;
        }
        from += n + (from[n] == ',');
    }
    if (*from != '\0') {
        return log_fail(ST_INPUT,
                        "bad fault '%.60s', [debug] inject, give nan, weight, fail or stall as "
                        "kind@rank:step with a rank below %d and a step from 1",
                        from, n_ranks);
    }
    *out = found;
    return ST_OK;
}

bool inject_due(const struct inject *i, enum inject_kind kind, int rank, uint64_t step)
{
    for (size_t k = 0; k < i->n; k++) {
        if (i->faults[k].kind == kind && i->faults[k].rank == rank && i->faults[k].step == step) {
            return true;
        }
    }
    return false;
}
