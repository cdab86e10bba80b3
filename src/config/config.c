#include "config/config.h"

#include <ini.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/shipped.h"
#include "config/config_lines.h"
#include "config/config_show.h"
#include "config/config_suggest.h"
#include "config/config_value.h"

enum {
    NAME_BYTES = 64,
    LINE_OF_SET = -1
};

void config_fini(struct config *cfg)
{
    for (size_t i = 0; i < config_table_n(); i++) {
        config_value_fini(cfg, config_table_at(i));
    }
    mem_free(cfg->file);
    mem_free(cfg->lines);
    memset(cfg, 0, sizeof *cfg);
}

enum status config_init(struct config *cfg)
{
    memset(cfg, 0, sizeof *cfg);
    cfg->file = mem_strdup("");
    cfg->lines = mem_alloc(config_table_n(), sizeof *cfg->lines);
    if (cfg->file == NULL || cfg->lines == NULL) {
        return log_fail(ST_NOMEM, "no memory for the configuration, free some");
    }
    for (size_t i = 0; i < config_table_n(); i++) {
        const struct config_key *k = config_table_at(i);
        TRY(config_value_set(cfg, k, k->fallback, "default"));
    }
    return ST_OK;
}

/* --- reading a file
 *
 * The parser is inih. It stops at 200 bytes a line in Debian's build, joins indented lines, knows
 * one comment sign after values and tells the handler no line numbers. So read_line gives it clean
 * lines, one at a time, and remembers where it is; the handler takes the value from that line.
 */

struct reading {
    struct config *cfg;
    const char *file;
    struct config_lines lines;
    int *seen;            /* by key: its line in this file, 0 if not seen */
    bool expects_handler; /* the line given last is a key, and the handler did not get it yet */
    bool skips_section;   /* it has been reported as unknown, and its keys are not */
    enum status st;       /* the first error; reading goes on to report all */
};

static void note_error(struct reading *r, enum status st)
{
    if (r->st == ST_OK) {
        r->st = st;
    }
}

static void check_last_line(struct reading *r)
{
    if (r->expects_handler) {
        note_error(r, log_fail(ST_INPUT, "'%.100s' is no setting, %s:%d, write key = value",
                               r->lines.line, r->file, r->lines.number));
        r->expects_handler = false;
    }
}

static void begin_section(struct reading *r, char *line)
{
    size_t n = strlen(line);
    char place[NAME_BYTES + 4096];

    r->skips_section = true;
    (void)snprintf(place, sizeof place, "%s:%d", r->file, r->lines.number);
    if (line[n - 1] != ']' || strchr(line, ']') != line + n - 1) {
        note_error(r, log_fail(ST_INPUT, "'%.100s' is no section, %s, write [name] alone on a line",
                               line, place));
        return;
    }
    line[n - 1] = '\0';
    if (config_table_has_section(line + 1)) {
        r->skips_section = false;
    } else {
        note_error(r, config_suggest_section(line + 1, place));
    }
    line[n - 1] = ']';
}

/* inih's reader: as fgets, but of clean lines. A line longer than inih's buffer is cut. */
static char *read_line(char *out, int bytes, void *ctx)
{
    struct reading *r = ctx;
    char *line;

    check_last_line(r);
    line = config_lines_next(&r->lines);
    if (line == NULL) {
        return NULL;
    }
    if (line[0] == '[') {
        begin_section(r, line);
    }
    r->expects_handler = line[0] != '[' && line[0] != '\0';
    (void)snprintf(out, (size_t)bytes - 1, "%s", line);
    strcat(out, "\n");
    return out;
}

static void take_value(struct reading *r, size_t i, const char *place)
{
    char *value = r->lines.line + strcspn(r->lines.line, "=:");
    const struct config_key *k = config_table_at(i);
    const char *wrong;
    enum status st;

    value += *value != '\0';
    value += strspn(value, " \t");
    wrong = config_lines_unquote(value);
    if (wrong != NULL) {
        st = log_fail(ST_INPUT, "%s.%s: %s, %s, write \"...\" with \\\" for a quote inside",
                      k->section, k->name, wrong, place);
    } else {
        st = config_value_set(r->cfg, k, value, place);
    }
    note_error(r, st);
    r->cfg->lines[i] = r->lines.number;
}

static int handle_key(void *ctx, const char *section, const char *name, const char *value)
{
    struct reading *r = ctx;
    char place[NAME_BYTES + 4096];
    size_t i;

    if (name == NULL || value == NULL) {
        return 1; /* builds of inih that report sections and lone names */
    }
    r->expects_handler = false;
    if (r->skips_section) {
        return 1;
    }
    i = config_table_find(section, name);
    (void)snprintf(place, sizeof place, "%s:%d", r->file, r->lines.number);
    if (i == config_table_n()) {
        note_error(r, config_suggest_key(section, name, place));
    } else if (r->seen[i] != 0) {
        note_error(r, log_fail(ST_INPUT, "%s.%s is set twice, %s and line %d, remove one", section,
                               name, place, r->seen[i]));
    } else {
        r->seen[i] = r->lines.number;
        take_value(r, i, place);
    }
    return 1;
}

enum status config_read(struct config *cfg, const char *path)
{
    static const struct shipped configs = {"config file", "configs", ".ini",
                                           ", as config.ini of a run"};
    struct reading r = {.cfg = cfg};
    char *file = NULL;
    enum status st = shipped_find(&configs, path, &file);

    if (st != ST_OK) {
        return st;
    }
    mem_free(cfg->file);
    cfg->file = file;
    r.file = file;
    TRY(config_lines_open(&r.lines, file));
    r.seen = mem_alloc(config_table_n(), sizeof *r.seen);
    if (r.seen == NULL) {
        r.st = log_fail(ST_NOMEM, "no memory to read the configuration, %s, free some", file);
    } else {
        (void)ini_parse_stream(read_line, &r, handle_key, &r);
    }
    mem_free(r.seen);
    config_lines_close(&r.lines);
    return r.st;
}

/* --- one assignment */

enum status config_set(struct config *cfg, const char *assignment)
{
    const char *equals = strchr(assignment, '='), *dot;
    char name[NAME_BYTES * 2], *section = name, *key;
    size_t i;

    if (equals == NULL || equals == assignment || (size_t)(equals - assignment) >= sizeof name) {
        return log_fail(ST_INPUT, "cannot set '%.200s', write section.key=value", assignment);
    }
    (void)snprintf(name, sizeof name, "%.*s", (int)(equals - assignment), assignment);
    dot = strchr(name, '.');
    if (dot == NULL) {
        return config_suggest_key("", name, assignment);
    }
    key = name + (dot - name) + 1;
    key[-1] = '\0';
    i = config_table_find(section, key);
    if (i == config_table_n()) {
        return config_table_has_section(section) ? config_suggest_key(section, key, assignment)
                                                 : config_suggest_section(section, assignment);
    }
    TRY(config_value_set(cfg, config_table_at(i), equals + 1, assignment));
    cfg->lines[i] = LINE_OF_SET;
    return ST_OK;
}

/* --- writing */

/* A value after its key: a blank only where something follows. */
struct value_writer {
    FILE *out;
    bool begun;
};

static void write_piece(void *ctx, const char *piece)
{
    struct value_writer *w = ctx;

    if (!w->begun && piece[0] != '\0') {
        (void)fputc(' ', w->out);
        w->begun = true;
    }
    (void)fputs(piece, w->out);
}

void config_write(const struct config *cfg, FILE *out)
{
    const char *section = "";

    for (size_t i = 0; i < config_table_n(); i++) {
        const struct config_key *k = config_table_at(i);
        if (strcmp(section, k->section) != 0) {
            (void)fprintf(out, "%s[%s]\n", i > 0 ? "\n" : "", k->section);
            section = k->section;
        }
        (void)fprintf(out, "%s =", k->name);
        config_show_value(cfg, k, write_piece, &(struct value_writer){out, false});
        (void)fputc('\n', out);
    }
}
