#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    LINE_BYTES = 4096
}; /* one write() of at most this many bytes keeps lines whole */

static void log_line(const char *level, const char *fmt, va_list args)
{
    char line[LINE_BYTES];
    int used = snprintf(line, sizeof line, "%s: %s: ", program_invocation_short_name, level);
    size_t n = used > 0 && (size_t)used < sizeof line ? (size_t)used : 0;
    int body = vsnprintf(line + n, sizeof line - n - 1, fmt, args);

    if (body > 0) {
        n += (size_t)body < sizeof line - n - 1 ? (size_t)body : sizeof line - n - 2;
    }
    line[n++] = '\n';
    for (size_t done = 0; done < n;) {
        ssize_t w = write(STDERR_FILENO, line + done, n - done);
        if (w < 0 && errno != EINTR) {
            return; /* nobody is left to tell */
        }
        done += w > 0 ? (size_t)w : 0;
    }
}

void log_error(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    log_line("error", fmt, args);
    va_end(args);
}

void log_warn(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    log_line("warning", fmt, args);
    va_end(args);
}

void log_note(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    log_line("note", fmt, args);
    va_end(args);
}

enum status log_fail(enum status st, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    log_line("error", fmt, args);
    va_end(args);
    return st;
}
