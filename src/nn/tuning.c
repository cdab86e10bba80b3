#include "nn/tuning_table.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

static const char first_line[] = "espalier-tuning 1";

struct entry {
    char *key;
    int64_t ns;
    bool used;
};

struct tuning {
    char *cache_path; /* NULL: none */
    bool announced, warned;
    char machine[96];
    pthread_mutex_t table, turn;
    struct entry *entries;
    size_t n, room;
};

const char *tuning_machine(const struct tuning *t)
{
    return t == NULL ? "" : t->machine;
}

/* --- the table --- */

static struct entry *find(const struct tuning *t, const char *key)
{
    for (size_t i = 0; i < t->n; i++) {
        if (strcmp(t->entries[i].key, key) == 0) {
            return &t->entries[i];
        }
    }
    return NULL;
}

/* Enter or, if `wins`, replace. */
static enum status put(struct tuning *t, const char *key, int64_t ns, bool wins)
{
    struct entry *e = find(t, key);

    if (e != NULL) {
        e->ns = wins ? ns : e->ns;
        return ST_OK;
    }
    if (t->n == t->room) {
        size_t room = t->room == 0 ? 64 : 2 * t->room;
        struct entry *grown = mem_grow(t->entries, t->n, room, sizeof *grown);
        if (grown == NULL) {
            return ST_NOMEM;
        }
        t->entries = grown;
        t->room = room;
    }
    e = &t->entries[t->n];
    *e = (struct entry){.key = mem_strdup(key), .ns = ns};
    if (e->key == NULL) {
        return ST_NOMEM;
    }
    t->n++;
    return ST_OK;
}

bool tuning_may_time(const struct tuning *t)
{
    return t != NULL && t->cache_path != NULL;
}

bool tuning_find(struct tuning *t, const char *key, int64_t *ns)
{
    struct entry *e;

    if (t == NULL) {
        return false;
    }
    pthread_mutex_lock(&t->table);
    e = find(t, key);
    if (e != NULL) {
        e->used = true;
        *ns = e->ns;
    }
    pthread_mutex_unlock(&t->table);
    return e != NULL;
}

enum status tuning_put(struct tuning *t, const char *key, int64_t ns)
{
    enum status st;

    pthread_mutex_lock(&t->table);
    st = put(t, key, ns, false);
    pthread_mutex_unlock(&t->table);
    return st;
}

void tuning_lock(struct tuning *t)
{
    if (t != NULL) {
        pthread_mutex_lock(&t->turn);
    }
}

void tuning_unlock(struct tuning *t)
{
    if (t != NULL) {
        pthread_mutex_unlock(&t->turn);
    }
}

/* --- files: the first line, then lines "nanoseconds key" --- */

static bool is_key(const char *key)
{
    size_t length = strlen(key);

    return length > 0 && length < TUNING_KEY_BYTES;
}

static enum status read_line(struct tuning *t, char *line, size_t number)
{
    char *space;
    int64_t ns;

    line[strcspn(line, "\r\n")] = '\0';
    if (number == 1) {
        return strcmp(line, first_line) == 0 ? ST_OK : ST_INPUT;
    }
    space = strchr(line, ' ');
    if (space == NULL) {
        return ST_INPUT;
    }
    *space = '\0';
    if (!text_to_i64(line, &ns) || ns < 0 || !is_key(space + 1)) {
        return ST_INPUT;
    }
    return put(t, space + 1, ns, true);
}

/* Read all of `f`; the number of the last line read goes to `number`. */
static enum status read_lines(struct tuning *t, FILE *f, size_t *number)
{
    char line[TUNING_KEY_BYTES + 32];
    enum status st = ST_OK;

    *number = 0;
    while (st == ST_OK && fgets(line, sizeof line, f) != NULL) {
        ++*number;
        st = read_line(t, line, *number);
    }
    if (st == ST_OK && ferror(f)) {
        return ST_IO;
    }
    return st == ST_OK && *number == 0 ? ST_INPUT : st;
}

enum status tuning_read(struct tuning *t, const char *path)
{
    FILE *f = fopen(path, "r");
    enum status st;
    size_t number;

    if (f == NULL) {
        return log_fail(ST_INPUT, "cannot open the tuning file, %s: %s, give tuning.txt of a run",
                        path, strerror(errno));
    }
    pthread_mutex_lock(&t->table);
    st = read_lines(t, f, &number);
    pthread_mutex_unlock(&t->table);
    fclose(f);
    if (st == ST_INPUT) {
        return log_fail(st, "not a tuning file, %s:%zu, delete it to have it timed again", path,
                        number);
    }
    return st == ST_IO ? log_fail(st, "cannot read the tuning file, %s: %s", path, strerror(errno))
                       : st;
}

/* Write `path` by way of a file beside it, so that readers see all or nothing. */
static enum status write_file(const struct tuning *t, const char *path, bool only_used)
{
    char *beside = mem_printf("%s.%ld", path, (long)getpid());
    FILE *f;
    bool good;

    if (beside == NULL) {
        return ST_NOMEM;
    }
    f = fopen(beside, "w");
    good = f != NULL && fprintf(f, "%s\n", first_line) > 0;
    for (size_t i = 0; good && i < t->n; i++) {
        if (!only_used || t->entries[i].used) {
            good = fprintf(f, "%lld %s\n", (long long)t->entries[i].ns, t->entries[i].key) > 0;
        }
    }
    good = f != NULL && fclose(f) == 0 && good && rename(beside, path) == 0;
    if (!good) {
        int error = errno;
        (void)remove(beside);
        errno = error;
    }
    mem_free(beside);
    return good ? ST_OK : ST_IO;
}

enum status tuning_write(const struct tuning *t, const char *path)
{
    enum status st = write_file(t, path, true);

    return st == ST_IO ? log_fail(st, "cannot write the tuning file, %s: %s", path, strerror(errno))
                       : st;
}

/* Make the folders above `path`; what cannot be made shows when the file is opened. */
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0777);
        *slash = '/';
    }
}

void tuning_announce(struct tuning *t)
{
    if (!t->announced) {
        log_note("timing the algorithms of this network, which is done once, times are kept in %s",
                 t->cache_path);
    }
    t->announced = true;
}

void tuning_save(struct tuning *t)
{
    if (t->cache_path == NULL) {
        return;
    }
    make_folders(t->cache_path);
    if (write_file(t, t->cache_path, false) != ST_OK && !t->warned) {
        t->warned = true;
        log_warn("cannot keep what was timed, %s: %s, the next run times again", t->cache_path,
                 strerror(errno));
    }
}

/* --- life --- */

/* Take in the cache; a missing file is fine, a damaged one is left behind with a warning. */
static enum status read_cache(struct tuning *t)
{
    FILE *f = fopen(t->cache_path, "r");
    enum status st;
    size_t number;

    if (f == NULL) {
        return ST_OK;
    }
    st = read_lines(t, f, &number);
    fclose(f);
    if (st == ST_NOMEM) {
        return st;
    }
    if (st != ST_OK) {
        log_warn("the tuning cache is damaged and not used from there on, %s:%zu", t->cache_path,
                 number);
    }
    return ST_OK;
}

enum status tuning_create(const char *cache_path, struct tuning **out)
{
    struct tuning *t = mem_alloc(1, sizeof *t);
    enum status st = ST_OK;

    if (t == NULL) {
        return ST_NOMEM;
    }
    pthread_mutex_init(&t->table, NULL);
    pthread_mutex_init(&t->turn, NULL);
    tuning_name_machine(t->machine, sizeof t->machine);
    if (cache_path != NULL && cache_path[0] != '\0') {
        t->cache_path = mem_strdup(cache_path);
        st = t->cache_path == NULL ? ST_NOMEM : read_cache(t);
    }
    if (st != ST_OK) {
        tuning_destroy(t);
        return st;
    }
    *out = t;
    return ST_OK;
}

void tuning_destroy(struct tuning *t)
{
    if (t == NULL) {
        return;
    }
    for (size_t i = 0; i < t->n; i++) {
        mem_free(t->entries[i].key);
    }
    mem_free(t->entries);
    mem_free(t->cache_path);
    pthread_mutex_destroy(&t->table);
    pthread_mutex_destroy(&t->turn);
    mem_free(t);
}
