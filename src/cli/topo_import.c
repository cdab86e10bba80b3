/* topo import. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/topo_tool.h"
#include "comm/plan_forestcoll.h"
#include "comm/plan_json.h"
#include "topo/topo_export.h"
#include "topo/topo_import.h"
#include "topo/topo_text.h"

/* Is it a file of trees, rather than a topology? */
static enum status is_forestcoll(const struct topo_options *o, bool *yes)
{
    char *text;
    size_t n;

    if (o->format != NULL) {
        *yes = strcmp(o->format, "forestcoll") == 0;
        return ST_OK;
    }
    TRY(topo_slurp(o->operand, &text, &n));
    *yes = strstr(text, "<Algo") != NULL;
    mem_free(text);
    return ST_OK;
}

static enum status import_plan(const struct topo_options *o, FILE *f)
{
    struct topo *t;
    struct plan *p = NULL;
    enum status st;

    if (o->topology == NULL) {
        return log_fail(ST_BADARG, "--topology is missing: the links that the trees of %s use",
                        o->operand);
    }
    TRY(topo_options_open(o, o->topology, &t));
    st = plan_forestcoll_read(o->operand, t, &p);
    if (st == ST_OK) {
        st = plan_json_write(p, t, f);
    }
    plan_destroy(p);
    topo_destroy(t);
    return st;
}

static enum status read_topology(const struct topo_options *o, struct topo **t)
{
    char *text;
    size_t n;
    enum status st;

    if (o->format == NULL) {
        return topo_import_any(o->operand, t);
    }
    if (strcmp(o->format, "nccl") != 0 && strcmp(o->format, "smi") != 0 &&
        strcmp(o->format, "hwloc") != 0) {
        return log_fail(ST_BADARG,
                        "unknown format '%.32s', --format, use nccl, smi, hwloc or forestcoll",
                        o->format);
    }
    TRY(topo_slurp(o->operand, &text, &n));
    st = o->format[0] == 'n'   ? topo_import_nccl(o->operand, text, n, t)
         : o->format[0] == 'h' ? topo_import_hwloc(o->operand, text, n, t)
                               : topo_import_smi(o->operand, text, n, t);
    mem_free(text);
    return st;
}

static enum status import_topology(const struct topo_options *o, FILE *f)
{
    struct topo *t;
    enum status st;

    TRY(read_topology(o, &t));
    TRY(topo_options_cut(o, &t));
    st = o->json ? topo_write_json(t, f) : topo_write(t, f);
    topo_destroy(t);
    return st;
}

enum status topo_import(const struct topo_options *o)
{
    bool plan;
    FILE *f;
    enum status st, closed;

    TRY(is_forestcoll(o, &plan));
    TRY(topo_out_open(o, &f));
    st = plan ? import_plan(o, f) : import_topology(o, f);
    closed = topo_out_close(o, f);
    return st != ST_OK ? st : closed;
}
