#include "train/rundir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "train/metrics.h"

struct rundir {
    char *path;
    FILE *steps, *epochs;
};

static const char REMEDY[] = "set [train] output to a new folder where files can be written";

/* Make the folders above `path`. Returns 0 or -1 with errno. */
static int make_parents(const char *path)
{
    char *copy = mem_strdup(path);
    int result = 0;

    if (copy == NULL) {
        errno = ENOMEM;
        return -1;
    }
    for (char *slash = strchr(copy + 1, '/'); *copy != '\0' && slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST) {
            result = -1;
            break;
        }
        *slash = '/';
    }
    mem_free(copy);
    return result;
}

char *rundir_tuning_cache(void)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (base != NULL && base[0] == '/') {
        return mem_printf("%s/espalier/tuning", base);
    }
    return home != NULL && home[0] == '/' ? mem_printf("%s/.cache/espalier/tuning", home)
                                          : mem_strdup("");
}

static bool is_folder(const char *path)
{
    struct stat s;

    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static enum status refuse(const char *path, int error)
{
    return log_fail(error == ENOMEM                   ? ST_NOMEM
                    : error == ENOSPC || error == EIO ? ST_IO
                                                      : ST_INPUT,
                    "cannot make the run directory, %s: %s, %s", path, strerror(error), REMEDY);
}

/* "configs/resnet.ini" as "resnet" */
static enum status config_name(const struct config *cfg, char **out)
{
    const char *slash = strrchr(cfg->file, '/');
    const char *name = slash == NULL ? cfg->file : slash + 1;
    size_t n = strlen(name);

    if (n > 4 && strcmp(name + n - 4, ".ini") == 0) {
        n -= 4;
    }
    *out = n == 0 ? mem_strdup("run") : mem_printf("%.*s", (int)n, name);
    return *out == NULL ? ST_NOMEM : ST_OK;
}

/* A folder of this moment's name that was not there before. */
static enum status make_default(const struct config *cfg, char **out)
{
    time_t now = time(NULL);
    struct tm tm;
    char stamp[32];
    char *name, *path = NULL;
    enum status st = config_name(cfg, &name);

    if (st != ST_OK) {
        return st;
    }
    (void)localtime_r(&now, &tm);
    (void)strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &tm);
    for (int k = 1; st == ST_OK; k++) {
        path = k == 1 ? mem_printf("runs/%s-%s", name, stamp)
                      : mem_printf("runs/%s-%s-%d", name, stamp, k);
        if (path == NULL) {
            st = ST_NOMEM;
        } else if (make_parents(path) != 0) {
            st = refuse(path, errno);
        } else if (mkdir(path, 0777) == 0) {
            break;
        } else if (errno != EEXIST) {
            st = refuse(path, errno);
        }
        mem_free(path);
        path = NULL;
    }
    mem_free(name);
    *out = path;
    return st;
}

static enum status make_given(const char *wanted, char **out)
{
    size_t n = strlen(wanted);
    char *path;

    while (n > 1 && wanted[n - 1] == '/') {
        n--;
    }
    path = mem_printf("%.*s", (int)n, wanted);
    if (path == NULL) {
        return ST_NOMEM;
    }
    if (make_parents(path) != 0 ||
        (mkdir(path, 0777) != 0 && !(errno == EEXIST && is_folder(path)))) {
        enum status st = refuse(path, errno == EEXIST ? ENOTDIR : errno);
        mem_free(path);
        return st;
    }
    *out = path;
    return ST_OK;
}

/* Open a file that must not be there yet: two runs never share a folder. */
static enum status open_new(const struct rundir *d, const char *name, FILE **out)
{
    char *path = rundir_file(d, name);
    enum status st = ST_OK;
    FILE *f;

    if (path == NULL) {
        return ST_NOMEM;
    }
    f = fopen(path, "wxe");
    if (f == NULL && errno == EEXIST) {
        st = log_fail(ST_INPUT, "the run directory holds a run already, %s, %s", path, REMEDY);
    } else if (f == NULL) {
        st = refuse(path, errno);
    } else {
        *out = f;
    }
    mem_free(path);
    return st;
}

static enum status write_config(const struct rundir *d, const struct config *cfg)
{
    FILE *f = NULL;
    bool bad;

    TRY(open_new(d, "config.ini", &f));
    config_write(cfg, f);
    bad = ferror(f) != 0;
    if (fclose(f) != 0 || bad) {
        return log_fail(ST_IO, "cannot write the effective config, %s/config.ini: %s, make room",
                        d->path, strerror(errno));
    }
    return ST_OK;
}

enum status rundir_create(const struct config *cfg, struct rundir **out)
{
    struct rundir *d = mem_alloc(1, sizeof *d);
    enum status st;

    if (d == NULL) {
        return ST_NOMEM;
    }
    st = cfg->train.output[0] != '\0' ? make_given(cfg->train.output, &d->path)
                                      : make_default(cfg, &d->path);
    if (st == ST_OK) {
        st = write_config(d, cfg);
    }
    if (st == ST_OK) {
        st = open_new(d, "steps.csv", &d->steps);
    }
    if (st == ST_OK) {
        st = open_new(d, "epochs.csv", &d->epochs);
    }
    if (st == ST_OK) {
        metrics_step_header(d->steps);
        metrics_epoch_header(d->epochs);
        st = rundir_flush(d);
    }
    if (st != ST_OK) {
        rundir_destroy(d);
        return st;
    }
    *out = d;
    return ST_OK;
}

void rundir_destroy(struct rundir *d)
{
    if (d == NULL) {
        return;
    }
    if (d->steps != NULL) {
        (void)fclose(d->steps);
    }
    if (d->epochs != NULL) {
        (void)fclose(d->epochs);
    }
    mem_free(d->path);
    mem_free(d);
}

const char *rundir_path(const struct rundir *d)
{
    return d->path;
}

FILE *rundir_steps(struct rundir *d)
{
    return d->steps;
}

FILE *rundir_epochs(struct rundir *d)
{
    return d->epochs;
}

char *rundir_file(const struct rundir *d, const char *name)
{
    return mem_printf("%s/%s", d->path, name);
}

enum status rundir_flush(struct rundir *d)
{
    errno = 0;
    if (fflush(d->steps) != 0 || fflush(d->epochs) != 0 || ferror(d->steps) != 0 ||
        ferror(d->epochs) != 0) {
        return log_fail(ST_IO, "cannot write metrics, %s: %s, make room there", d->path,
                        strerror(errno));
    }
    if (!is_folder(d->path)) {
        return log_fail(ST_IO, "the run directory has gone, %s, leave it in place until the end",
                        d->path);
    }
    return ST_OK;
}
