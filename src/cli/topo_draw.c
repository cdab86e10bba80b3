/* topo draw. */
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/topo_tool.h"
#include "comm/plan_json.h"
#include "topo/topo_export.h"

extern char **environ;

static const char *const colours[] = {"#d62728", "#1f77b4", "#2ca02c", "#ff7f0e",
                                      "#9467bd", "#8c564b", "#e377c2", "#17becf"};

/* Add the edges of the plan's trees, a colour for each, and the use of each link. */
static void write_trees(const struct plan *p, const struct topo *t, double *use, FILE *out)
{
    double gbs = 1e-9 / plan_link_seconds_per_byte(p, t);

    for (size_t i = 0; i < p->n_trees; i++) {
        const struct tree *tree = &p->trees[i];
        double share = (double)tree->share.num / (double)tree->share.den;
        for (int pass = 0; pass < 2; pass++) {
            const int *parent = pass == 0 ? tree->down : tree->up;
            const struct path *paths = pass == 0 ? tree->down_path : tree->up_path;
            for (int v = 0; parent != NULL && v < p->n_nodes; v++) {
                for (int k = 0; k < paths[v].n; k++) {
                    const struct topo_link *l = &t->links[paths[v].links[k]];
                    use[paths[v].links[k]] += share * gbs / (1e-9 * (double)l->bytes_per_s);
                    if (pass == 1 && tree->down != NULL) {
                        continue; /* the way up is the same tree */
                    }
                    (void)fprintf(
                        out, "  \"%s\" -> \"%s\" [color=\"%s\" penwidth=%.2f arrowsize=0.6];\n",
                        t->vertices[l->from].name, t->vertices[l->to].name,
                        colours[i % (sizeof colours / sizeof colours[0])], 0.8 + 4 * share);
                }
            }
        }
    }
}

/* Run `dot -Tformat -o out in`. */
static enum status run_dot(const char *format, const char *in, const char *out)
{
    char option[16];
    const char *argv[] = {"dot", option, "-o", out, in, NULL};
    int code, rc;
    pid_t pid;

    (void)snprintf(option, sizeof option, "-T%s", format);
    rc = posix_spawnp(&pid, "dot", NULL, NULL, (char *const *)argv, environ);
    if (rc != 0) {
        return log_fail(ST_IO, "cannot run dot, %s, install graphviz or write a .dot file",
                        strerror(rc));
    }
    while (waitpid(pid, &code, 0) < 0 && errno == EINTR) {
    }
    if (!WIFEXITED(code) || WEXITSTATUS(code) != 0) {
        return log_fail(ST_IO, "dot failed on %s, is graphviz installed?", in);
    }
    return ST_OK;
}

static enum status write_picture(const struct topo_options *o, const struct topo *t,
                                 const struct plan *p, FILE *f)
{
    double *use = mem_alloc((size_t)t->n_links, sizeof *use);
    char *extra = NULL;
    size_t n = 0;
    FILE *trees;
    enum status st;

    (void)o;
    if (use == NULL) {
        return ST_NOMEM;
    }
    trees = open_memstream(&extra, &n);
    if (trees == NULL) {
        mem_free(use);
        return ST_NOMEM;
    }
    if (p != NULL) {
        write_trees(p, t, use, trees);
    }
    (void)fclose(trees);
    st = topo_write_dot(t, p != NULL ? use : NULL, extra, f);
    free(extra);
    mem_free(use);
    return st;
}

/* To a .dot file or stdout, or through a file beside the picture. */
static enum status draw(const struct topo_options *o, const struct topo *t, const struct plan *p)
{
    static const char *const formats[] = {"svg", "png", "pdf"};
    const char *dot = o->out != NULL ? strrchr(o->out, '.') : NULL, *format = NULL;
    struct topo_options inner = *o;
    char *name = NULL;
    FILE *f;
    enum status st;

    for (size_t i = 0; dot != NULL && i < sizeof formats / sizeof formats[0]; i++) {
        format = strcmp(dot + 1, formats[i]) == 0 ? formats[i] : format;
    }
    if (format != NULL) {
        name = mem_printf("%s.dot", o->out);
        if (name == NULL) {
            return ST_NOMEM;
        }
        inner.out = name;
    }
    st = topo_out_open(&inner, &f);
    if (st == ST_OK) {
        enum status written = write_picture(o, t, p, f);
        st = topo_out_close(&inner, f);
        st = st == ST_OK ? written : st;
    }
    if (st == ST_OK && format != NULL) {
        st = run_dot(format, name, o->out);
        (void)unlink(name);
    }
    mem_free(name);
    return st;
}

enum status topo_draw(const struct topo_options *o)
{
    struct topo *t;
    struct plan *p = NULL;
    enum status st;

    TRY(topo_options_open(o, o->operand, &t));
    st = o->plan != NULL ? plan_json_read(o->plan, t, &p) : ST_OK;
    if (st == ST_OK) {
        st = draw(o, t, p);
    }
    plan_destroy(p);
    topo_destroy(t);
    return st;
}
