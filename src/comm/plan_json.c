#include "comm/plan_json.h"

#include <string.h>

#include "base/log.h"

static const char *node_name(const struct plan *p, const struct topo *t, int node)
{
    return t->vertices[p->vertex_of[node]].name;
}

/* Names hold no characters that JSON escapes, except in texts by people. */
static void write_text(const char *text, FILE *out)
{
    (void)fputc('"', out);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            (void)fprintf(out, "\\%c", *c);
        } else if ((unsigned char)*c < ' ') {
            (void)fprintf(out, "\\u%04x", (unsigned)*c);
        } else {
            (void)fputc(*c, out);
        }
    }
    (void)fputc('"', out);
}

/* One kind if all links of the path are of it, else the kind of each with commas between. */
static void write_kinds(const struct topo *t, const struct path *path, FILE *out)
{
    bool same = true;

    for (int i = 1; i < path->n; i++) {
        same = same && strcmp(t->links[path->links[i]].kind, t->links[path->links[0]].kind) == 0;
    }
    (void)fputc('"', out);
    for (int i = 0; i < (same ? 1 : path->n); i++) {
        (void)fprintf(out, "%s%s", i > 0 ? "," : "", t->links[path->links[i]].kind);
    }
    (void)fputc('"', out);
}

static void write_edge(const struct plan *p, const struct topo *t, int from, int to,
                       const struct path *path, FILE *out)
{
    (void)fprintf(out, "{\"from\": %d, \"to\": %d, \"via\": [\"%s\"", from, to,
                  node_name(p, t, from));
    for (int i = 0; i < path->n; i++) {
        (void)fprintf(out, ", \"%s\"", t->vertices[t->links[path->links[i]].to].name);
    }
    (void)fputs("], \"link\": ", out);
    if (path->n > 0) {
        write_kinds(t, path, out);
    } else {
        (void)fputs("\"\"", out);
    }
    (void)fputc('}', out);
}

static void write_pass(const struct plan *p, const struct topo *t, const int *parent,
                       const struct path *paths, bool up, FILE *out)
{
    bool first = true;

    (void)fputc('[', out);
    for (int v = 0; parent != NULL && v < p->n_nodes; v++) {
        if (parent[v] >= 0) {
            (void)fputs(first ? "\n      " : ",\n      ", out);
            first = false;
            write_edge(p, t, up ? v : parent[v], up ? parent[v] : v, &paths[v], out);
        }
    }
    (void)fputc(']', out);
}

/* The names of the vertices in one part. */
static void write_part(const struct proof *proof, const struct topo *t, int part, FILE *out)
{
    bool first = true;

    (void)fputc('[', out);
    for (int v = 0; v < t->n_vertices; v++) {
        if (proof->part[v] == part) {
            (void)fprintf(out, "%s\"%s\"", first ? "" : ", ", t->vertices[v].name);
            first = false;
        }
    }
    (void)fputc(']', out);
}

static void write_partition(const struct proof *proof, const struct topo *t, FILE *out)
{
    (void)fputs("{\"kind\": \"partition\", \"parts\": [", out);
    for (int i = 0; i < proof->n_parts; i++) {
        (void)fputs(i > 0 ? ",\n    " : "\n    ", out);
        write_part(proof, t, i, out);
    }
    (void)fputs("],\n    \"outside\": ", out);
    write_part(proof, t, -1, out);
}

static void write_cuts(const struct proof *proof, const struct topo *t, FILE *out)
{
    bool first = true;

    (void)fprintf(out, "{\"kind\": \"weighted-cuts\", \"den\": %lld, \"cuts\": [",
                  (long long)proof->den);
    for (int i = 0; i < proof->n_cuts; i++) {
        bool comma = false;
        (void)fprintf(out, "%s\n    {\"pass\": \"%s\", \"weight\": %lld, \"around\": [",
                      i > 0 ? "," : "", proof->cuts[i].up ? "up" : "down",
                      (long long)proof->cuts[i].weight);
        for (int v = 0; v < t->n_vertices; v++) {
            if (proof->cuts[i].inside[v]) {
                (void)fprintf(out, "%s\"%s\"", comma ? ", " : "", t->vertices[v].name);
                comma = true;
            }
        }
        (void)fputs("]}", out);
    }
    (void)fputs("],\n    \"switches\": [", out);
    for (int k = 0; k < 2 * t->n_vertices; k++) {
        if (proof->switch_weight[k] != 0) {
            (void)fprintf(out, "%s\n    {\"pass\": \"%s\", \"name\": \"%s\", \"weight\": %lld}",
                          first ? "" : ",", k % 2 == 1 ? "up" : "down", t->vertices[k / 2].name,
                          (long long)proof->switch_weight[k]);
            first = false;
        }
    }
    (void)fputc(']', out);
}

static void write_proof(const struct plan *p, const struct topo *t, FILE *out)
{
    const struct proof *proof = &p->proof;

    (void)fputs("  \"bottleneck\": ", out);
    switch (proof->kind) {
    case PROOF_NONE:
        (void)fputs("null,\n", out);
        return;
    case PROOF_CUT:
        (void)fputs("{\"kind\": \"cut\",\n    \"from\": ", out);
        write_part(proof, t, 0, out);
        (void)fputs(",\n    \"to\": ", out);
        write_part(proof, t, 1, out);
        break;
    case PROOF_PARTITION:
        write_partition(proof, t, out);
        break;
    case PROOF_WEIGHTED_CUTS:
        write_cuts(proof, t, out);
        break;
    }
    if (p->bottleneck != NULL) {
        (void)fputs(",\n    \"text\": ", out);
        write_text(p->bottleneck, out);
    }
    (void)fputs("},\n", out);
}

static void write_names(const struct plan *p, const struct topo *t, int begin, int end, FILE *out)
{
    (void)fputc('[', out);
    for (int v = begin; v < end; v++) {
        (void)fprintf(out, "%s\"%s\"", v > begin ? ", " : "", node_name(p, t, v));
    }
    (void)fputc(']', out);
}

static void write_head(const struct plan *p, const struct topo *t, FILE *out)
{
    double seconds = plan_link_seconds_per_byte(p, t);

    (void)fprintf(
        out, "{\"format\": \"espalier-plan/1\", \"collective\": \"%s\", \"backend\": \"%s\",\n",
        collective_name(p->collective), p->backend);
    (void)fprintf(out, "  \"topology\": \"%s\", ", t->name);
    if (t->kept != NULL) {
        (void)fprintf(out, "\"links\": \"%s\", ", t->kept);
    }
    (void)fputs("\"devices\": ", out);
    write_names(p, t, 0, p->n_ranks, out);
    if (p->n_nodes > p->n_ranks) {
        (void)fputs(",\n  \"relays\": ", out);
        write_names(p, t, p->n_ranks, p->n_nodes, out);
    }
    if (p->root >= 0) {
        (void)fprintf(out, ",\n  \"root\": %d,", p->root);
    } else {
        (void)fputs(",\n  \"root\": null,", out);
    }
    (void)fprintf(out, " \"pipelined\": %s,\n", p->pipelined ? "true" : "false");
    if (seconds > 0) {
        (void)fprintf(out, "  \"algbw_gbs\": %.12g, ", 1e-9 / seconds);
    } else {
        (void)fputs("  \"algbw_gbs\": null, ", out);
    }
    if (p->bound_bytes_per_s > 0 && seconds > 0) {
        (void)fprintf(out, "\"bound_gbs\": %.12g,\n", 1e-9 * p->bound_bytes_per_s);
    } else {
        (void)fputs("\"bound_gbs\": null,\n", out);
    }
}

enum status plan_json_write(const struct plan *p, const struct topo *t, FILE *out)
{
    write_head(p, t, out);
    write_proof(p, t, out);
    (void)fputs("  \"trees\": [", out);
    for (size_t i = 0; i < p->n_trees; i++) {
        const struct tree *tree = &p->trees[i];
        (void)fprintf(
            out, "%s\n    {\"root\": %d, \"share\": [%lld, %lld],\n     \"up\": ", i > 0 ? "," : "",
            tree->root, (long long)tree->share.num, (long long)tree->share.den);
        write_pass(p, t, tree->up, tree->up_path, true, out);
        (void)fputs(",\n     \"down\": ", out);
        write_pass(p, t, tree->down, tree->down_path, false, out);
        (void)fputc('}', out);
    }
    (void)fputs("]}\n", out);
    return ferror(out) ? log_fail(ST_IO, "cannot write the plan, the disk may be full") : ST_OK;
}
