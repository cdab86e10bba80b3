#include "base/shipped.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

enum {
    FOLDER_BYTES = PATH_MAX + 64
};

/* Take `path` (owned) as the answer if it is there and no folder. NULL stands for a failed
 * allocation. */
static enum status try_path(char *path, char **out)
{
    struct stat info;

    if (path == NULL) {
        return log_fail(ST_NOMEM, "no memory for the path of a file, free some");
    }
    if (stat(path, &info) == 0 && !S_ISDIR(info.st_mode)) {
        *out = path;
        return ST_OK;
    }
    mem_free(path);
    return ST_OK;
}

static enum status try_folder(const struct shipped *what, const char *folder, const char *name,
                              char **out)
{
    TRY(try_path(mem_printf("%s/%s", folder, name), out));
    if (*out == NULL) {
        TRY(try_path(mem_printf("%s/%s%s", folder, name, what->suffix), out));
    }
    return ST_OK;
}

/* Cut the last component off; false when none is left. */
static bool go_up(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash == NULL) {
        return false;
    }
    *slash = '\0';
    return true;
}

/* Where the running program lies; "" if that cannot be told. */
static void program_path(char out[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);

    out[n > 0 ? n : 0] = '\0';
}

/*
 * Folder number `i` of those that may hold such files: the one here, then two for each folder above
 * the program, of the source tree it was built in and of its install prefix. False after the last.
 */
static bool folder_at(const struct shipped *what, size_t i, char out[FOLDER_BYTES])
{
    char here[PATH_MAX];

    if (i == 0) {
        (void)snprintf(out, FOLDER_BYTES, "%s", what->folder);
        return true;
    }
    program_path(here);
    for (size_t up = 0; up <= (i - 1) / 2; up++) {
        if (!go_up(here)) {
            return false;
        }
    }
    (void)snprintf(out, FOLDER_BYTES, i % 2 == 1 ? "%s/%s" : "%s/share/espalier/%s", here,
                   what->folder);
    return true;
}

/* The distance of `name` from the file name `file`, whose suffix may be left out. */
static size_t name_distance(const struct shipped *what, const char *name, const char *file)
{
    char stem[NAME_MAX + 1];
    size_t n = strlen(file), n_suffix = strlen(what->suffix), whole, part;

    if (n <= n_suffix || n > NAME_MAX || strcmp(file + n - n_suffix, what->suffix) != 0) {
        return SIZE_MAX;
    }
    (void)snprintf(stem, sizeof stem, "%.*s", (int)(n - n_suffix), file);
    whole = text_distance(name, file);
    part = text_distance(name, stem);
    return part < whole ? part : whole;
}

/* Put the file of `folder` whose name is nearest into `near` if it is nearer than `*best`. */
static void look_for_near(const struct shipped *what, const char *folder, const char *name,
                          char near[NAME_MAX + 1], size_t *best)
{
    DIR *dir = opendir(folder);

    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        size_t d = name_distance(what, name, e->d_name);
        if (d < *best) {
            *best = d;
            (void)snprintf(near, NAME_MAX + 1, "%s", e->d_name);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

static enum status not_found(const struct shipped *what, const char *name)
{
    char near[NAME_MAX + 1] = "", folder[FOLDER_BYTES];
    size_t best = 2 + strlen(name) / 3;
    struct stat info;

    if (stat(name, &info) == 0) {
        return log_fail(ST_INPUT, "%s is a folder, %s, name a file%s", what->noun, name,
                        what->folder_hint);
    }
    for (size_t i = 0; folder_at(what, i, folder); i++) {
        look_for_near(what, folder, name, near, &best);
    }
    if (near[0] != '\0') {
        return log_fail(ST_INPUT, "no such %s, %s, did you mean %s?", what->noun, name, near);
    }
    return log_fail(ST_INPUT, "no such %s, %s, give a path, or a name in %s/", what->noun, name,
                    what->folder);
}

enum status shipped_find(const struct shipped *what, const char *name, char **out)
{
    char *found = NULL, folder[FOLDER_BYTES];
    enum status st = try_path(mem_strdup(name), &found);
    bool bare = name[0] != '\0' && strchr(name, '/') == NULL;

    for (size_t i = 0; st == ST_OK && found == NULL && bare && folder_at(what, i, folder); i++) {
        st = try_folder(what, folder, name, &found);
    }
    if (st == ST_OK && found == NULL) {
        st = not_found(what, name);
    }
    if (st == ST_OK) {
        *out = found;
    }
    return st;
}
