#ifndef TESTS_CAUGHT_H
#define TESTS_CAUGHT_H

/* What a test's calls write to stdout or stderr, caught in a file without a name. */

#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

struct caught {
    int fd, saved;
    FILE *file;
};

/* From now on `fd`, STDOUT_FILENO or STDERR_FILENO, goes into a file. */
static inline struct caught caught_begin(int fd)
{
    struct caught c = {.fd = fd, .saved = dup(fd), .file = tmpfile()};

    cr_assert(c.saved >= 0 && c.file != NULL);
    (void)fflush(NULL);
    cr_assert_geq(dup2(fileno(c.file), fd), 0);
    return c;
}

/* `fd` is what it was; `text` gets what was written, cut to `n_bytes` with its end. */
static inline void caught_end(struct caught c, char *text, size_t n_bytes)
{
    (void)fflush(NULL);
    cr_assert_geq(dup2(c.saved, c.fd), 0);
    (void)close(c.saved);
    rewind(c.file);
    text[fread(text, 1, n_bytes - 1, c.file)] = '\0';
    (void)fclose(c.file);
}

#endif
