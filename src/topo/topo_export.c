#include "topo/topo_export.h"

#include <string.h>

#include "base/log.h"

static enum status end(FILE *out)
{
    return ferror(out) ? log_fail(ST_IO, "cannot write the topology, the disk may be full") : ST_OK;
}

/* A text between quotes, without the characters that would end it. */
static void write_quoted(const char *text, FILE *out)
{
    (void)fputc('"', out);
    for (const char *c = text; *c != '\0'; c++) {
        (void)fputc(*c == '"' || (unsigned char)*c < ' ' ? ' ' : *c == '\\' ? '/' : *c, out);
    }
    (void)fputc('"', out);
}

/* The link that runs back with the same properties, or -1. */
static int find_twin(const struct topo *t, int i)
{
    const struct topo_link *a = &t->links[i];

    for (int j = 0; j < t->n_links; j++) {
        const struct topo_link *b = &t->links[j];
        if (a->from == b->to && a->to == b->from && a->bytes_per_s == b->bytes_per_s &&
            a->effective_bytes_per_s == b->effective_bytes_per_s &&
            a->latency_ns == b->latency_ns && a->lanes == b->lanes &&
            strcmp(a->kind, b->kind) == 0) {
            return j;
        }
    }
    return -1;
}

static void write_rate(int64_t bytes_per_s, FILE *out)
{
    if (bytes_per_s % 1000 == 0 && bytes_per_s >= 1000000) {
        (void)fprintf(out, "%.10g GB/s", 1e-9 * (double)bytes_per_s);
    } else {
        (void)fprintf(out, "%lld B/s", (long long)bytes_per_s);
    }
}

static void write_link(const struct topo *t, int i, FILE *out)
{
    const struct topo_link *l = &t->links[i];
    int twin = find_twin(t, i);

    if (twin >= 0 && twin < i) {
        return;
    }
    (void)fprintf(out, "%-8s %s %s  ", twin >= 0 ? "link" : "oneway", t->vertices[l->from].name,
                  t->vertices[l->to].name);
    write_rate(l->bytes_per_s, out);
    (void)fprintf(out, "  %lld ns  %s", (long long)l->latency_ns, l->kind);
    if (l->lanes > 1) {
        (void)fprintf(out, " x%d", l->lanes);
    }
    if (l->effective_bytes_per_s != l->bytes_per_s) {
        (void)fputs("  effective ", out);
        write_rate(l->effective_bytes_per_s, out);
    }
    (void)fputc('\n', out);
}

/* What remains of a switch when its links were dropped is not worth a line. */
static bool has_link(const struct topo *t, int v)
{
    for (int i = 0; i < t->n_links; i++) {
        if (t->links[i].from == v || t->links[i].to == v) {
            return true;
        }
    }
    return false;
}

enum status topo_write(const struct topo *t, FILE *out)
{
    static const char *const words[] = {"device", "cpu", "switch", "nic", "net"};

    (void)fprintf(out, "topology %s ", t->name);
    write_quoted(t->desc, out);
    (void)fputc('\n', out);
    /* Devices in rank order, each with a statement of its own kind. */
    for (int r = 0; r < t->n_devices; r++) {
        const struct topo_vertex *v = &t->vertices[t->devices[r]];
        (void)fprintf(out, "%-8s %s\n", words[v->kind], v->name);
    }
    for (int v = 0; v < t->n_vertices; v++) {
        if (!topo_is_device(t, v) && has_link(t, v)) {
            (void)fprintf(out, "%-8s %s\n", words[t->vertices[v].kind], t->vertices[v].name);
        }
    }
    for (int i = 0; i < t->n_links; i++) {
        write_link(t, i, out);
    }
    return end(out);
}

enum status topo_write_json(const struct topo *t, FILE *out)
{
    static const char *const kinds[] = {"gpu", "cpu", "switch", "nic", "net"};

    (void)fprintf(out,
                  "{\"format\": \"espalier-topology/1\", \"name\": \"%s\", \"desc\": ", t->name);
    write_quoted(t->desc, out);
    (void)fputs(",\n  \"vertices\": [", out);
    for (int v = 0; v < t->n_vertices; v++) {
        (void)fprintf(out, "%s\n    {\"name\": \"%s\", \"kind\": \"%s\"}", v > 0 ? "," : "",
                      t->vertices[v].name, kinds[t->vertices[v].kind]);
    }
    (void)fputs("],\n  \"devices\": [", out);
    for (int r = 0; r < t->n_devices; r++) {
        (void)fprintf(out, "%s\"%s\"", r > 0 ? ", " : "", t->vertices[t->devices[r]].name);
    }
    (void)fputs("],\n  \"links\": [", out);
    for (int i = 0; i < t->n_links; i++) {
        const struct topo_link *l = &t->links[i];
        (void)fprintf(out,
                      "%s\n    {\"from\": \"%s\", \"to\": \"%s\", \"kind\": \"%s\", \"lanes\": %d, "
                      "\"bytes_per_s\": %lld, \"effective_bytes_per_s\": %lld, \"latency_ns\": "
                      "%lld}",
                      i > 0 ? "," : "", t->vertices[l->from].name, t->vertices[l->to].name, l->kind,
                      l->lanes, (long long)l->bytes_per_s, (long long)l->effective_bytes_per_s,
                      (long long)l->latency_ns);
    }
    (void)fputs("]}\n", out);
    return end(out);
}

enum status topo_write_dot(const struct topo *t, const double *use, const char *extra, FILE *out)
{
    (void)fprintf(
        out,
        "digraph \"%s\" {\n  layout=neato; overlap=false; overlap_shrink=false; splines=true;\n"
        "  node [fontname=sans fontsize=11]; edge [fontname=sans fontsize=8 len=2.4];\n",
        t->name);
    for (int v = 0; v < t->n_vertices; v++) {
        bool device = topo_is_device(t, v);
        (void)fprintf(out, "  \"%s\" [shape=%s style=filled fillcolor=\"%s\"];\n",
                      t->vertices[v].name, device ? "box" : "ellipse",
                      device ? "#dceadb" : "#eeeeee");
    }
    for (int i = 0; i < t->n_links; i++) {
        const struct topo_link *l = &t->links[i];
        int twin = find_twin(t, i);
        double width = use != NULL ? 0.5 + 4 * use[i] : 1;
        if (use == NULL && twin >= 0 && twin < i) {
            continue;
        }
        (void)fprintf(out,
                      "  \"%s\" -> \"%s\" [color=\"#a0a0a0\" penwidth=%.2f label=\"%.4g\"%s];\n",
                      t->vertices[l->from].name, t->vertices[l->to].name, width,
                      1e-9 * (double)l->bytes_per_s,
                      use == NULL && twin >= 0 ? " dir=none" : " arrowsize=0.5");
    }
    (void)fputs(extra != NULL ? extra : "", out);
    (void)fputs("}\n", out);
    return end(out);
}
