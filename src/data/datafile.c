#include "data/datafile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/log.h"
#include "base/mem.h"

enum {
    SPELLINGS = 4,
    GZ_BUFFER = 1 << 17,
    READ_MOST = 1 << 30,   /* zlib counts in int */
    FIRST_BYTES = 1 << 20, /* allocated for contents of unknown length ... */
    USUAL_RATIO = 64,      /* ... or this many times the compressed size */
};

/* Spelling number k of a file's path: bit 0 toggles ".gz", bit 1 the character before "idx". */
static char *spelling(const char *folder, const char *name, int k)
{
    size_t n = strlen(name);
    bool has_gz = n > 3 && strcmp(name + n - 3, ".gz") == 0, toggle = (k & 1) != 0;
    bool alone = name[0] == '/' || folder[0] == '\0';
    char *path =
        mem_printf("%s%s%.*s%s", alone ? "" : folder, alone ? "" : "/",
                   (int)(toggle && has_gz ? n - 3 : n), name, toggle && !has_gz ? ".gz" : "");

    if (path != NULL && (k & 2) != 0) {
        char *base = strrchr(path, '/');
        char *idx = strstr(base == NULL ? path : base, "idx");
        if (idx > path && (idx[-1] == '-' || idx[-1] == '.')) {
            idx[-1] = idx[-1] == '-' ? '.' : '-';
        }
    }
    return path;
}

/* The file must be a regular one; FIFOs and devices have no length that could be checked. */
static enum status adopt(struct datafile *f, int fd, const char *remedy)
{
    struct stat info;

    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return log_fail(ST_INPUT, "cannot read %s, %s, expected a file, found a %s, %s", f->what,
                        f->path, S_ISDIR(info.st_mode) ? "directory" : "special file", remedy);
    }
    f->disk_bytes = (uint64_t)info.st_size;
    f->gz = gzdopen(fd, "rb");
    if (f->gz == NULL) {
        close(fd);
        return log_fail(ST_NOMEM, "out of memory for reading %s, %s", f->what, f->path);
    }
    (void)gzbuffer(f->gz, GZ_BUFFER);
    return ST_OK;
}

enum status datafile_open(struct datafile *f, const char *folder, const char *name,
                          const char *what, const char *remedy)
{
    f->what = what;
    for (int k = 0; k < SPELLINGS; k++) {
        int fd;

        mem_free(f->path);
        f->path = spelling(folder, name, k);
        if (f->path == NULL) {
            return log_fail(ST_NOMEM, "out of memory for the name of %s, %s", what, name);
        }
        fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd >= 0) {
            return adopt(f, fd, remedy);
        }
        if (errno != ENOENT) {
            return log_fail(ST_INPUT, "cannot open %s, %s, %s, %s", what, f->path, strerror(errno),
                            remedy);
        }
    }
    return log_fail(ST_INPUT, "cannot open %s, %s%s%s (with or without .gz), no such file, %s",
                    what, name[0] == '/' ? "" : folder,
                    name[0] == '/' || folder[0] == '\0' ? "" : "/", name, remedy);
}

void datafile_close(struct datafile *f)
{
    if (f->gz != NULL) {
        (void)gzclose_r(f->gz); /* everything that matters was checked by datafile_finish */
    }
    mem_free(f->path);
    memset(f, 0, sizeof *f);
}

bool datafile_is_plain(const struct datafile *f)
{
    return gzdirect(f->gz) != 0;
}

static enum status stream_error(const struct datafile *f)
{
    int code = Z_OK;

    (void)gzerror(f->gz, &code);
    if (code == Z_MEM_ERROR) {
        return log_fail(ST_NOMEM, "out of memory for reading %s, %s", f->what, f->path);
    }
    if (code == Z_ERRNO) {
        return log_fail(ST_IO, "cannot read %s, %s, %s, check the disk", f->what, f->path,
                        strerror(errno));
    }
    return log_fail(
        ST_INPUT,
        "damaged gzip file of %s, %s, expected a sound stream, found an error or a wrong "
        "checksum after %llu bytes of contents, copy or download the file again",
        f->what, f->path, (unsigned long long)f->n_read);
}

enum status datafile_read(struct datafile *f, void *buf, size_t n, size_t *got)
{
    size_t done = 0;

    while (done < n) {
        size_t want = n - done < READ_MOST ? n - done : READ_MOST;
        int r = gzread(f->gz, (char *)buf + done, (unsigned)want);
        if (r < 0) {
            return stream_error(f);
        }
        done += (size_t)r;
        f->n_read += (uint64_t)r;
        if ((size_t)r < want) {
            break;
        }
    }
    *got = done;
    return ST_OK;
}

static enum status wrong_length(const struct datafile *f, uint64_t expected, const char *contents,
                                const char *more, uint64_t found)
{
    return log_fail(ST_INPUT,
                    "wrong length of %s, %s, expected %llu bytes for %s, found %s%llu, copy or "
                    "download the file again",
                    f->what, f->path, (unsigned long long)expected, contents, more,
                    (unsigned long long)found);
}

enum status datafile_expect(const struct datafile *f, uint64_t bytes, const char *contents)
{
    if (datafile_is_plain(f) && f->disk_bytes != bytes) {
        return wrong_length(f, bytes, contents, "", f->disk_bytes);
    }
    return ST_OK;
}

/* Room for the contents without trusting a header: as much as the file's size makes likely. */
static size_t first_room(const struct datafile *f, size_t n)
{
    uint64_t likely = datafile_is_plain(f) ? f->disk_bytes : f->disk_bytes * USUAL_RATIO;

    likely = likely > FIRST_BYTES ? likely : FIRST_BYTES;
    return n < likely ? n : (size_t)likely;
}

enum status datafile_load(struct datafile *f, size_t n, uint64_t total, const char *contents,
                          uint8_t **out)
{
    size_t room = first_room(f, n), have = 0, got;
    uint8_t *p = mem_alloc(room, 1), *q = NULL;
    enum status st = ST_OK;

    while (p != NULL) {
        st = datafile_read(f, p + have, room - have, &got);
        if (st != ST_OK) {
            goto fail;
        }
        have += got;
        if (have == n) {
            *out = p;
            return ST_OK;
        }
        if (have < room) {
            st = wrong_length(f, total, contents, "", f->n_read);
            goto fail;
        }
        room = n - room < room ? n : 2 * room;
        q = mem_grow(p, have, room, 1);
        if (q == NULL) {
            break;
        }
        p = q;
    }
    st = log_fail(ST_NOMEM, "out of memory for %s, %s, %s need %zu bytes", f->what, f->path,
                  contents, n);
fail:
    mem_free(p);
    return st;
}

enum status datafile_finish(struct datafile *f, uint64_t total, const char *contents)
{
    char skipped[1 << 14];
    size_t got;

    do { /* one byte more than expected is asked for, so that a longer file shows */
        uint64_t left = total - f->n_read + 1;
        TRY(datafile_read(f, skipped, left < sizeof skipped ? (size_t)left : sizeof skipped, &got));
    } while (got > 0 && f->n_read <= total);
    if (f->n_read != total) {
        return wrong_length(f, total, contents, f->n_read > total ? "at least " : "", f->n_read);
    }
    if (!datafile_is_plain(f)) {
        int code = Z_OK;
        (void)gzerror(f->gz, &code);
        if (code != Z_OK && code != Z_STREAM_END) {
            return log_fail(
                ST_INPUT,
                "truncated gzip file of %s, %s, expected a checksum after %llu bytes of "
                "contents, found the end of the file, copy or download the file again",
                f->what, f->path, (unsigned long long)total);
        }
    }
    return ST_OK;
}
