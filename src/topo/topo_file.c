#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/shipped.h"
#include "topo/topo_import.h"
#include "topo/topo_text.h"

enum {
    MAX_FILE_BYTES = 4 << 20
};

enum status topo_slurp(const char *path, char **text, size_t *n)
{
    FILE *f = fopen(path, "rb");
    enum status st = ST_OK;
    char *buf;

    if (f == NULL) {
        return log_fail(ST_INPUT, "%s: cannot open the file: %s", path, strerror(errno));
    }
    buf = mem_alloc(MAX_FILE_BYTES + 1, 1);
    if (buf == NULL) {
        (void)fclose(f);
        return ST_NOMEM;
    }
    *n = fread(buf, 1, MAX_FILE_BYTES + 1, f);
    if (ferror(f)) {
        st = log_fail(ST_INPUT, "%s: cannot read the file: %s", path, strerror(errno));
    } else if (*n > MAX_FILE_BYTES) {
        st = log_fail(ST_INPUT, "%s: larger than 4 MiB, not such a file", path);
    }
    (void)fclose(f);
    if (st != ST_OK) {
        mem_free(buf);
        return st;
    }
    buf[*n] = '\0';
    *text = buf;
    return ST_OK;
}

enum status topo_read(const char *path, struct topo **out)
{
    char *text;
    size_t n;
    enum status st;

    TRY(topo_slurp(path, &text, &n));
    st = topo_parse(path, text, n, out);
    mem_free(text);
    return st;
}

enum status topo_open(const char *name, struct topo **out)
{
    static const struct shipped topologies = {"topology", "topologies", ".topo", ""};
    char *path = NULL;
    enum status st;

    if (strcmp(name, "host") == 0 && access(name, F_OK) != 0) {
        return topo_import_hwloc(name, NULL, 0, out);
    }
    TRY(shipped_find(&topologies, name, &path));
    st = topo_read(path, out);
    mem_free(path);
    return st;
}
