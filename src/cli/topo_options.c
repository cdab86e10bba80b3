#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/topo_tool.h"

static const struct args_flag flags[] = {
    {"topology", "T", "a .topo file, a name in topologies/, or host", NULL, 't'},
    {"collective", "C", "broadcast, reduce, allreduce, reduce-scatter, allgather", NULL, 'c'},
    {"root", "RANK", "root of broadcast and reduce (0)", NULL, 'r'},
    {"devices", "LIST", "only these devices, by number or name: 0,1,4,5", NULL, 'd'},
    {"links", "KINDS", "only links of these kinds: nvlink", NULL, 'l'},
    {"backend", "B", "plan with this backend (treepack)", NULL, 'b'},
    {"options", "TEXT", "what the backend takes, e.g. \"mwu eps=0.1\"", NULL, 0},
    {"bytes", "SIZE", "size of the message that the plan is chosen for, with K, M, G (unlimited)",
     NULL, 'm'},
    {"plan", "FILE", "draw: a plan file whose trees are drawn", NULL, 'p'},
    {"format", "F", "import: nccl, smi, hwloc, forestcoll (found out by default)", NULL, 0},
    {"count", "N", "probe: number of CPU devices (all cores)", NULL, 'n'},
    {"type", "T", "probe: cpu, measured (default), or cuda, as the driver tells", NULL, 0},
    {"measure", NULL, "probe: measure what copies between GPUs reach, too", NULL, 0},
    {"out", "FILE", "write there instead of stdout; draw: .dot, .svg, .png, .pdf", NULL, 'o'},
    {"json", NULL, "JSON on stdout and nothing else there", NULL, 'j'},
    {"help", NULL, "this text", NULL, 'h'},
};

void topo_options_print(FILE *out)
{
    args_print(flags, sizeof flags / sizeof flags[0], out);
}

static enum status read_int(const char *flag, const char *value, int low, int high, int *out)
{
    int64_t x;

    if (!text_to_i64(value, &x) || x < low || x > high) {
        return log_fail(ST_BADARG, "--%s takes a number from %d to %d, not '%.64s'", flag, low,
                        high, value);
    }
    *out = (int)x;
    return ST_OK;
}

static enum status set_option(struct topo_options *o, const char *name, const char *value)
{
    struct {
        const char *name;
        const char **slot;
    } texts[] = {{"topology", &o->topology}, {"collective", &o->collective},
                 {"devices", &o->devices},   {"links", &o->links},
                 {"backend", &o->backend},   {"plan", &o->plan},
                 {"format", &o->format},     {"out", &o->out},
                 {"options", &o->options},   {"type", &o->type}};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (strcmp(texts[i].name, name) == 0) {
            *texts[i].slot = value;
            return ST_OK;
        }
    }
    if (strcmp(name, "bytes") == 0) {
        uint64_t bytes;
        if (!text_to_bytes(value, &bytes) || bytes == 0 || bytes > SIZE_MAX / 2) {
            return log_fail(ST_BADARG, "--bytes takes a size such as 64M, not '%.64s'", value);
        }
        o->n_bytes = (size_t)bytes;
        return ST_OK;
    }
    if (strcmp(name, "root") == 0) {
        return read_int(name, value, 0, 1 << 20, &o->root);
    }
    if (strcmp(name, "count") == 0) {
        return read_int(name, value, 2, 64, &o->n_devices);
    }
    if (strcmp(name, "measure") == 0) {
        o->measure = true;
        return ST_OK;
    }
    o->json = true;
    return ST_OK;
}

enum status topo_options_read(struct topo_options *o, const struct topo_command *c, int argc,
                              const char *const *argv)
{
    struct args a = {flags, sizeof flags / sizeof flags[0], argc, argv, 2};
    const struct args_flag *flag;
    const char *value;

    *o = (struct topo_options){.collective = "allreduce", .backend = "treepack"};
    if (c->operand != NULL && argc > 2 && argv[2][0] != '-') {
        o->operand = argv[2];
        a.at = 3;
    }
    for (;;) {
        TRY(args_next(&a, &flag, &value));
        if (flag == NULL) {
            break;
        }
        TRY(set_option(o, flag->name, value));
    }
    if (o->operand == NULL && c->operand != NULL && strcmp(c->operand, "TOPOLOGY") == 0) {
        o->operand = o->topology;
    }
    if (o->operand == NULL && c->operand != NULL) {
        return log_fail(ST_BADARG, "%s is missing, write topo %s %s", c->operand, c->name,
                        c->operand);
    }
    return ST_OK;
}

/* The rank of a device given by its number or name, `n` letters. */
static enum status find_rank(const struct topo *t, const char *word, size_t n, int *rank)
{
    char name[64];
    int64_t number;

    (void)snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), word);
    if (text_to_i64(name, &number) && number >= 0 && number < t->n_devices) {
        *rank = (int)number;
        return ST_OK;
    }
    for (int r = 0; r < t->n_devices; r++) {
        if (strcmp(t->vertices[t->devices[r]].name, name) == 0) {
            *rank = r;
            return ST_OK;
        }
    }
    return log_fail(ST_INPUT, "no device '%s' in topology %s, which has %d from %s to %s", name,
                    t->name, t->n_devices, t->vertices[t->devices[0]].name,
                    t->vertices[t->devices[t->n_devices - 1]].name);
}

static enum status keep_devices(const struct topo *t, const char *list, struct topo **out)
{
    int *ranks = mem_alloc(strlen(list) + 1, sizeof *ranks), n = 0;
    enum status st = ranks == NULL ? ST_NOMEM : ST_OK;

    for (const char *p = list; st == ST_OK;) {
        size_t letters = strcspn(p, ",");
        st = find_rank(t, p, letters, &ranks[n++]);
        if (p[letters] == '\0') {
            break;
        }
        p += letters + 1;
    }
    if (st == ST_OK) {
        st = topo_subset(t, ranks, n, out);
    }
    mem_free(ranks);
    return st;
}

enum status topo_options_cut(const struct topo_options *o, struct topo **io)
{
    struct topo *t = *io, *s;
    enum status st;

    *io = NULL;
    if (o->links != NULL) {
        st = topo_keep_links(t, o->links, &s);
        topo_destroy(t);
        TRY(st);
        t = s;
    }
    if (o->devices != NULL) {
        st = keep_devices(t, o->devices, &s);
        topo_destroy(t);
        TRY(st);
        t = s;
    }
    *io = t;
    return ST_OK;
}

enum status topo_options_open(const struct topo_options *o, const char *name, struct topo **out)
{
    struct topo *t;

    TRY(topo_open(name, &t));
    TRY(topo_options_cut(o, &t));
    *out = t;
    return ST_OK;
}

enum status topo_out_open(const struct topo_options *o, FILE **f)
{
    *f = o->out == NULL ? stdout : fopen(o->out, "w");
    return *f != NULL ? ST_OK : log_fail(ST_IO, "cannot write %s: %s", o->out, strerror(errno));
}

enum status topo_out_close(const struct topo_options *o, FILE *f)
{
    bool failed = ferror(f) != 0;

    if (f != stdout) {
        failed = fclose(f) != 0 || failed;
    }
    return failed ? log_fail(ST_IO, "cannot write %s: %s",
                             o->out != NULL ? o->out : "standard output", strerror(errno))
                  : ST_OK;
}
