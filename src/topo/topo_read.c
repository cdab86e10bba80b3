/*
 * The .topo format: one statement a line, words separated by blanks, # starts a comment.
 *
 *     topology NAME "description"                     first, once
 *     device|cpu|switch|nic|net NAME ...              vertices; device is a GPU, cpu a CPU device
 *     link|oneway A B RATE UNIT [TIME UNIT] [KIND] [xLANES] [effective RATE UNIT]
 *
 * Units: B/s KB/s MB/s GB/s TB/s and ns us ms s, decimal. `link` stands for both directions.
 */
#include "topo/topo_text.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

enum {
    MAX_LINE_BYTES = 4096,
    MAX_WORDS = 512
};
enum {
    MAX_LINKS = 40000,
    MAX_VERTICES = 8192
};

struct reader {
    const char *path;
    int line;
    struct topo *t;
    char *words[MAX_WORDS];
    int n;
};

static enum status bad(const struct reader *r, const char *what, const char *word)
{
    return log_fail(ST_INPUT, "%s:%d: %s '%.64s'", r->path, r->line, what, word);
}

/* Cut a line into words; a quoted text is one word, # ends the line. */
static enum status split_words(struct reader *r, char *p)
{
    r->n = 0;
    for (;;) {
        char end = ' ';
        p += strspn(p, " \t\r");
        if (*p == '\0' || *p == '#') {
            return ST_OK;
        }
        if (r->n == MAX_WORDS) {
            return log_fail(ST_INPUT, "%s:%d: more than %d words, cut the statement into several",
                            r->path, r->line, MAX_WORDS);
        }
        if (*p == '"') {
            end = '"';
            p++;
        }
        r->words[r->n++] = p;
        p += end == '"' ? strcspn(p, "\"") : strcspn(p, " \t\r#");
        if (end == '"' && *p != '"') {
            return bad(r, "the quote is not closed in", r->words[r->n - 1]);
        }
        if (*p == '\0') {
            return ST_OK;
        }
        if (*p == '#') {
            *p = '\0';
            return ST_OK;
        }
        *p++ = '\0';
    }
}

bool topo_name_ok(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/-";
    size_t n = strlen(name);

    return n > 0 && n < 64 && strspn(name, letters) == n;
}

static enum status read_header(struct reader *r)
{
    if (r->t != NULL) {
        return bad(r, "a second 'topology' statement,", r->n > 1 ? r->words[1] : "");
    }
    if (r->n < 2 || r->n > 3) {
        return log_fail(ST_INPUT, "%s:%d: expected: topology NAME \"description\"", r->path,
                        r->line);
    }
    if (!topo_name_ok(r->words[1])) {
        return bad(r,
                   "not a name of letters, digits and _.:/- of 1 to 63 characters:", r->words[1]);
    }
    return topo_create(r->words[1], r->n == 3 ? r->words[2] : "", &r->t);
}

static enum status read_vertices(struct reader *r, enum topo_kind kind)
{
    if (r->n < 2) {
        return bad(r, "no names after", r->words[0]);
    }
    for (int i = 1; i < r->n; i++) {
        if (!topo_name_ok(r->words[i])) {
            return bad(
                r, "not a name of letters, digits and _.:/- of 1 to 63 characters:", r->words[i]);
        }
        if (topo_find_vertex(r->t, r->words[i]) >= 0) {
            return bad(r, "declared twice:", r->words[i]);
        }
        if (r->t->n_vertices == MAX_VERTICES) {
            return bad(r, "more than 8192 vertices, the first too many is", r->words[i]);
        }
        TRY(topo_add_vertex(r->t, r->words[i], kind, NULL));
    }
    return ST_OK;
}

struct unit {
    const char *name;
    double scale;
};

/* Words i and i+1 as a number and its unit, scaled and rounded to an integer in [low, 1e15]. */
static enum status read_quantity(struct reader *r, int i, const struct unit *units, double low,
                                 int64_t *out)
{
    double x;

    if (i + 1 >= r->n) {
        return bad(r, "a number and its unit are missing after", r->words[r->n - 1]);
    }
    if (!text_to_double(r->words[i], &x)) {
        return bad(r, "expected a finite number, found", r->words[i]);
    }
    for (const struct unit *u = units; u->name != NULL; u++) {
        if (strcmp(u->name, r->words[i + 1]) == 0) {
            x *= u->scale;
            if (!(x >= low)) {
                return bad(r,
                           low > 0 ? "a capacity of at least 1 B/s is needed, not"
                                   : "a latency of 0 or more is needed, not",
                           r->words[i]);
            }
            if (x > 1e15) {
                return bad(r, "out of range (at most 1e15 B/s or ns):", r->words[i]);
            }
            *out = (int64_t)(x + 0.5);
            return ST_OK;
        }
    }
    return bad(r,
               units[0].scale == 1.0 && low > 0 ? "not a unit of B/s KB/s MB/s GB/s TB/s:"
                                                : "not a unit of ns us ms s:",
               r->words[i + 1]);
}

static const struct unit rate_units[] = {{"B/s", 1.0},  {"KB/s", 1e3},  {"MB/s", 1e6},
                                         {"GB/s", 1e9}, {"TB/s", 1e12}, {NULL, 0.0}};
static const struct unit time_units[] = {
    {"ns", 1.0}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0.0}};

/* The optional words after the rate: latency, kind, lanes, effective rate, in this order. */
static enum status read_link_tail(struct reader *r, int i, struct topo_link *l)
{
    double number;

    if (i < r->n && text_to_double(r->words[i], &number)) {
        TRY(read_quantity(r, i, time_units, 0.0, &l->latency_ns));
        i += 2;
    }
    if (i < r->n && strcmp(r->words[i], "effective") != 0 &&
        !(r->words[i][0] == 'x' && strspn(r->words[i] + 1, "0123456789") > 0)) {
        if (!topo_name_ok(r->words[i])) {
            return bad(r, "not the name of a kind of link:", r->words[i]);
        }
        l->kind = r->words[i++];
    }
    if (i < r->n && r->words[i][0] == 'x') {
        int64_t lanes;
        if (!text_to_i64(r->words[i] + 1, &lanes) || lanes < 1 || lanes > 1024) {
            return bad(r, "expected lanes as x1 to x1024, found", r->words[i]);
        }
        l->lanes = (int)lanes;
        i++;
    }
    if (i < r->n && strcmp(r->words[i], "effective") == 0) {
        TRY(read_quantity(r, i + 1, rate_units, 1.0, &l->effective_bytes_per_s));
        i += 3;
    }
    return i == r->n ? ST_OK : bad(r, "nothing may follow here, found", r->words[i]);
}

static enum status add_direction(struct reader *r, const struct topo_link *l)
{
    for (int i = 0; i < r->t->n_links; i++) {
        const struct topo_link *o = &r->t->links[i];
        if (o->from == l->from && o->to == l->to && strcmp(o->kind, l->kind) == 0) {
            return log_fail(ST_INPUT,
                            "%s:%d: a second %s link from '%s' to '%s'; lanes that are bonded are "
                            "one link with their total rate",
                            r->path, r->line, l->kind, r->t->vertices[l->from].name,
                            r->t->vertices[l->to].name);
        }
    }
    if (r->t->n_links == MAX_LINKS) {
        return bad(r, "more than 40000 links, counted by direction, at", r->words[1]);
    }
    return topo_add_link(r->t, l);
}

static enum status read_link(struct reader *r, bool both)
{
    struct topo_link l = {.kind = (char *)"link", .lanes = 1};
    int64_t rate;

    if (r->n < 5) {
        return log_fail(ST_INPUT,
                        "%s:%d: expected: %s A B RATE UNIT [TIME UNIT] [KIND] [xLANES] [effective "
                        "RATE UNIT]",
                        r->path, r->line, r->words[0]);
    }
    l.from = topo_find_vertex(r->t, r->words[1]);
    l.to = topo_find_vertex(r->t, r->words[2]);
    if (l.from < 0 || l.to < 0) {
        return bad(r, "no vertex of that name was declared above:", r->words[l.from < 0 ? 1 : 2]);
    }
    if (l.from == l.to) {
        return bad(r, "a link from a vertex to itself:", r->words[1]);
    }
    TRY(read_quantity(r, 3, rate_units, 1.0, &rate));
    l.bytes_per_s = rate;
    TRY(read_link_tail(r, 5, &l));
    TRY(add_direction(r, &l));
    if (both) {
        int from = l.from;
        l.from = l.to;
        l.to = from;
        TRY(add_direction(r, &l));
    }
    return ST_OK;
}

static enum status read_statement(struct reader *r)
{
    static const struct {
        const char *word;
        enum topo_kind kind;
    } kinds[] = {{"device", TOPO_GPU},
                 {"cpu", TOPO_CPU},
                 {"switch", TOPO_SWITCH},
                 {"nic", TOPO_NIC},
                 {"net", TOPO_NET}};
    static const char *const known[] = {"topology", "device", "cpu",  "switch",
                                        "nic",      "net",    "link", "oneway"};
    const char *near;

    if (strcmp(r->words[0], "topology") == 0) {
        return read_header(r);
    }
    near = text_nearest(r->words[0], known, sizeof known / sizeof known[0]);
    if (near == NULL || strcmp(near, r->words[0]) != 0) {
        return log_fail(ST_INPUT, "%s:%d: no statement '%.64s'%s%s", r->path, r->line, r->words[0],
                        near != NULL ? ", did you mean " : "", near != NULL ? near : "");
    }
    if (r->t == NULL) {
        return bad(r, "the first statement must be: topology NAME \"description\"; found",
                   r->words[0]);
    }
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        if (strcmp(r->words[0], kinds[k].word) == 0) {
            return read_vertices(r, kinds[k].kind);
        }
    }
    return read_link(r, strcmp(r->words[0], "link") == 0);
}

/* All lines of a text of `n` bytes that a zero byte follows; the text is cut up. */
static enum status read_lines(struct reader *r, char *text, size_t n)
{
    char *p = text;

    if (strncmp(p, "\xef\xbb\xbf", 3) == 0) {
        p += 3;
    }
    while (p < text + n) {
        char *end = memchr(p, '\n', (size_t)(text + n - p));
        if (end == NULL) {
            end = text + n;
        }
        r->line++;
        *end = '\0';
        if (end - p > MAX_LINE_BYTES) {
            return log_fail(ST_INPUT, "%s:%d: the line is longer than %d bytes", r->path, r->line,
                            MAX_LINE_BYTES);
        }
        if (strlen(p) != (size_t)(end - p)) {
            return log_fail(ST_INPUT, "%s:%d: a zero byte, this is not a text file", r->path,
                            r->line);
        }
        TRY(split_words(r, p));
        if (r->n > 0) {
            TRY(read_statement(r));
        }
        p = end + 1;
    }
    if (r->t == NULL) {
        return log_fail(ST_INPUT, "%s:%d: no statement in the file, expected: topology NAME",
                        r->path, r->line > 0 ? r->line : 1); /* line 1 of an empty text */
    }
    return topo_check(r->t, r->path, r->line);
}

enum status topo_parse(const char *path, char *text, size_t n, struct topo **out)
{
    struct reader *r = mem_alloc(1, sizeof *r);
    enum status st;

    if (r == NULL) {
        return ST_NOMEM;
    }
    r->path = path;
    st = read_lines(r, text, n);
    if (st == ST_OK) {
        *out = r->t;
    } else {
        topo_destroy(r->t);
    }
    mem_free(r);
    return st;
}
