#include "config/config_find.h"

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

/* Take `path` (owned) as the answer if it is there and no folder. NULL stands for a failed
 * allocation. */
static enum status try_path(char *path, char **out)
{
    struct stat info;

    if (path == NULL) {
        return log_fail(ST_NOMEM, "no memory for the path of the config file, free some");
    }
    if (stat(path, &info) == 0 && !S_ISDIR(info.st_mode)) {
        *out = path;
        return ST_OK;
    }
    mem_free(path);
    return ST_OK;
}

static enum status try_folder(const char *folder, const char *name, char **out)
{
    TRY(try_path(mem_printf("%s/%s", folder, name), out));
    if (*out == NULL) {
        TRY(try_path(mem_printf("%s/%s.ini", folder, name), out));
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

/* The `configs` folders above the program: of the source tree it was built in, or of its install
 * prefix. */
static enum status try_program(const char *name, char **out)
{
    char here[PATH_MAX], folder[PATH_MAX + 32];

    program_path(here);
    while (*out == NULL && go_up(here)) {
        (void)snprintf(folder, sizeof folder, "%s/configs", here);
        TRY(try_folder(folder, name, out));
        if (*out == NULL) {
            (void)snprintf(folder, sizeof folder, "%s/share/espalier/configs", here);
            TRY(try_folder(folder, name, out));
        }
    }
    return ST_OK;
}

/* The distance of `name` from the file name `file`, whose ".ini" may be left out. */
static size_t name_distance(const char *name, const char *file)
{
    char stem[NAME_MAX + 1];
    size_t n = strlen(file), whole = text_distance(name, file), part;

    if (n <= 4 || n > NAME_MAX || strcmp(file + n - 4, ".ini") != 0) {
        return SIZE_MAX;
    }
    (void)snprintf(stem, sizeof stem, "%.*s", (int)(n - 4), file);
    part = text_distance(name, stem);
    return part < whole ? part : whole;
}

/* Put the file of `folder` whose name is nearest into `near` if it is nearer than `*best`. */
static void look_for_near(const char *folder, const char *name, char near[NAME_MAX + 1],
                          size_t *best)
{
    DIR *dir = opendir(folder);

    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        size_t d = name_distance(name, e->d_name);
        if (d < *best) {
            *best = d;
            (void)snprintf(near, NAME_MAX + 1, "%s", e->d_name);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

static enum status not_found(const char *name)
{
    char near[NAME_MAX + 1] = "", here[PATH_MAX], folder[PATH_MAX + 32];
    size_t best = 2 + strlen(name) / 3;
    struct stat info;

    if (stat(name, &info) == 0) {
        return log_fail(ST_INPUT,
                        "config file is a folder, %s, name a file, as %s/config.ini of a "
                        "run",
                        name, name);
    }
    look_for_near("configs", name, near, &best);
    for (program_path(here); go_up(here);) {
        (void)snprintf(folder, sizeof folder, "%s/configs", here);
        look_for_near(folder, name, near, &best);
        (void)snprintf(folder, sizeof folder, "%s/share/espalier/configs", here);
        look_for_near(folder, name, near, &best);
    }
    if (near[0] != '\0') {
        return log_fail(ST_INPUT, "no such config file, %s, did you mean %s?", name, near);
    }
    return log_fail(ST_INPUT, "no such config file, %s, give a path, or a name in configs/", name);
}

enum status config_find_file(const char *name, char **out)
{
    char *found = NULL;
    enum status st = try_path(mem_strdup(name), &found);

    if (st == ST_OK && found == NULL && name[0] != '\0' && strchr(name, '/') == NULL) {
        st = try_folder("configs", name, &found);
        if (st == ST_OK && found == NULL) {
            st = try_program(name, &found);
        }
    }
    if (st == ST_OK && found == NULL) {
        st = not_found(name);
    }
    if (st == ST_OK) {
        *out = found;
    }
    return st;
}
