#include "config/config_lines.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

enum {
    MAX_FILE_BYTES = 1 << 20
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

static enum status check_text(const struct config_lines *l, const char *path)
{
    const char *nul = memchr(l->text, '\0', (size_t)(l->end - l->text));
    int line = 1;

    if (l->end - l->text > MAX_FILE_BYTES) {
        return log_fail(ST_INPUT, "config file is larger than 1 MiB, %s, is this the right file?",
                        path);
    }
    if (nul == NULL) {
        return ST_OK;
    }
    for (const char *p = l->text; p < nul; p++) {
        line += *p == '\n';
    }
    return log_fail(ST_INPUT, "config file holds a NUL byte, %s:%d, save it as UTF-8 text", path,
                    line);
}

enum status config_lines_open(struct config_lines *l, const char *path)
{
    FILE *f = fopen(path, "rb");
    enum status st = ST_OK;
    size_t n = 0;

    memset(l, 0, sizeof *l);
    if (f == NULL) {
        return log_fail(ST_INPUT, "cannot open config file: %s, %s, check path and permissions",
                        strerror(errno), path);
    }
    l->text = mem_alloc(MAX_FILE_BYTES + 2, 1);
    if (l->text == NULL) {
        st = log_fail(ST_NOMEM, "no memory to read the config file, %s, free some", path);
        goto done;
    }
    errno = 0;
    n = fread(l->text, 1, MAX_FILE_BYTES + 1, f);
    if (ferror(f)) {
        st = log_fail(ST_INPUT, "cannot read config file: %s, %s, give a text file",
                      strerror(errno), path);
        goto done;
    }
    l->end = l->text + n;
    st = check_text(l, path);
    l->next = l->text + (strncmp(l->text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0);
done:
    (void)fclose(f);
    if (st != ST_OK) {
        config_lines_close(l);
    }
    return st;
}

/* The closing quote of a value that begins with one, or NULL. */
static char *closing_quote(char *open)
{
    for (char *p = open + 1; *p != '\0'; p++) {
        if (*p == '\\' && p[1] != '\0') {
            p++;
        } else if (*p == '"') {
            return p;
        }
    }
    return NULL;
}

/* A comment begins with # or ; at the start or after a blank, but not inside a quoted value. */
static void cut_comment(char *line)
{
    char *p = line + strcspn(line, "=:#;"), *quote;

    if (*p == '=' || *p == ':') {
        p += 1 + strspn(p + 1, " \t");
        quote = *p == '"' ? closing_quote(p) : NULL;
        p = quote != NULL ? quote + 1 : p;
    }
    for (; *p != '\0'; p++) {
        if ((*p == '#' || *p == ';') && (p == line || is_blank(p[-1]))) {
            *p = '\0';
            return;
        }
    }
}

char *config_lines_next(struct config_lines *l)
{
    char *newline, *end;

    if (l->next == NULL || l->next >= l->end) {
        return NULL;
    }
    newline = memchr(l->next, '\n', (size_t)(l->end - l->next));
    end = newline != NULL ? newline : l->end;
    *end = '\0';
    for (l->line = l->next; is_blank(*l->line);) {
        l->line++;
    }
    l->next = end + 1;
    l->number++;
    cut_comment(l->line);
    for (end = l->line + strlen(l->line); end > l->line && is_blank(end[-1]);) {
        *--end = '\0';
    }
    return l->line;
}

const char *config_lines_unquote(char *value)
{
    char *close, *to = value;

    if (value[0] != '"') {
        return NULL;
    }
    close = closing_quote(value);
    if (close == NULL) {
        return "the closing quote is missing";
    }
    if (close[1] != '\0') {
        return "there is text after the closing quote";
    }
    for (const char *from = value + 1; from < close; from++) {
        from += *from == '\\' && (from[1] == '"' || from[1] == '\\');
        *to++ = *from;
    }
    *to = '\0';
    return NULL;
}

void config_lines_close(struct config_lines *l)
{
    mem_free(l->text);
    memset(l, 0, sizeof *l);
}
