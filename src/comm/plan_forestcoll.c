#include "comm/plan_forestcoll.h"

#include <libxml/parser.h>
#include <libxml/tree.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

struct source {
    const char *path;
    const struct topo *t;
    struct plan *p;
    int64_t per_node;
};

static enum status bad(const struct source *s, const xmlNode *e, const char *what)
{
    return log_fail(ST_INPUT, "%s:%ld: %s", s->path, xmlGetLineNo(e), what);
}

static bool is(const xmlNode *e, const char *name)
{
    return e->type == XML_ELEMENT_NODE && strcmp((const char *)e->name, name) == 0;
}

static enum status number(const struct source *s, const xmlNode *e, const char *name, int64_t low,
                          int64_t high, int64_t *out)
{
    xmlChar *value = xmlGetNoNsProp(e, (const xmlChar *)name);
    bool ok = value != NULL && text_to_i64((const char *)value, out) && *out >= low && *out <= high;

    xmlFree(value);
    return ok ? ST_OK
              : log_fail(ST_INPUT, "%s:%ld: attribute %s of <%s> is no number from %lld to %lld",
                         s->path, xmlGetLineNo(e), name, (const char *)e->name, (long long)low,
                         (long long)high);
}

/* The vertex that the file calls `number`, or -1. */
static int vertex_of(const struct topo *t, int64_t number)
{
    int64_t other = t->n_devices;

    if (number >= 0 && number < t->n_devices) {
        return t->devices[number];
    }
    for (int v = 0; v < t->n_vertices; v++) {
        if (!topo_is_device(t, v) && other++ == number) {
            return v;
        }
    }
    return -1;
}

/* "0,8,3": the vertices from sender to receiver. */
static enum status read_path(const struct source *s, const xmlNode *e, const char *text,
                             struct path *path)
{
    int at = -1;

    path->links = mem_alloc(strlen(text) + 1, sizeof *path->links);
    if (path->links == NULL) {
        return ST_NOMEM;
    }
    for (const char *p = text;;) {
        char word[24];
        size_t n = strcspn(p, ",");
        int64_t value;
        int vertex, link;
        (void)snprintf(word, sizeof word, "%.*s", (int)(n < 23 ? n : 23), p);
        vertex = text_to_i64(word, &value) ? vertex_of(s->t, value) : -1;
        if (vertex < 0) {
            return bad(s, e, "the path names a vertex that the topology does not have");
        }
        if (at >= 0) {
            link = topo_find_link(s->t, at, vertex);
            if (link < 0) {
                return bad(s, e, "the path crosses a link that the topology does not have");
            }
            path->links[path->n++] = link;
        }
        at = vertex;
        if (p[n] == '\0') {
            return ST_OK;
        }
        p += n + 1;
    }
}

static enum status read_send(const struct source *s, const xmlNode *e, struct tree *tree)
{
    int64_t from, to, last = s->t->n_devices - 1;
    xmlChar *path;
    enum status st;

    TRY(number(s, e, "src", 0, last, &from));
    TRY(number(s, e, "dst", 0, last, &to));
    if (tree->down[to] >= 0) {
        return bad(s, e, "a rank receives the same chunk twice");
    }
    tree->down[to] = (int)from;
    path = xmlGetNoNsProp(e, (const xmlChar *)"path");
    if (path == NULL) {
        return bad(s, e, "a send without its path");
    }
    st = read_path(s, e, (const char *)path, &tree->down_path[to]);
    xmlFree(path);
    return st;
}

static enum status read_tree(struct source *s, const xmlNode *e, int root)
{
    struct tree *tree;
    int64_t chunks;

    TRY(number(s, e, "nchunks", 1, s->per_node, &chunks));
    TRY(plan_add_tree(s->p, root, share_make(chunks, s->per_node * s->t->n_devices), &tree));
    for (const xmlNode *c = e->children; c != NULL; c = c->next) {
        if (is(c, "send")) {
            TRY(read_send(s, c, tree));
        }
    }
    return ST_OK;
}

/* The trees in the order of their roots, as plans have them. */
static enum status read_trees(struct source *s, const xmlNode *algo)
{
    TRY(number(s, algo, "nchunkspernode", 1, 1 << 20, &s->per_node));
    for (int root = 0; root < s->t->n_devices; root++) {
        for (const xmlNode *c = algo->children; c != NULL; c = c->next) {
            int64_t r;
            if (is(c, "tree")) {
                TRY(number(s, c, "root", 0, s->t->n_devices - 1, &r));
                if (r == root) {
                    TRY(read_tree(s, c, root));
                }
            }
        }
    }
    return ST_OK;
}

static enum status read_doc(struct source *s, xmlDoc *doc)
{
    const xmlNode *algo = xmlDocGetRootElement(doc);
    int n = s->t->n_devices;

    s->p = mem_alloc(1, sizeof *s->p);
    if (s->p == NULL) {
        return ST_NOMEM;
    }
    if (algo == NULL || !is(algo, "Algo")) {
        return log_fail(ST_INPUT, "%s:1: the root element is not 'Algo'", s->path);
    }
    s->p->collective = COLL_ALLGATHER;
    strcpy(s->p->backend, "forestcoll");
    s->p->n_ranks = s->p->n_nodes = n;
    s->p->root = -1;
    s->p->pipelined = true;
    s->p->vertex_of = mem_alloc((size_t)n, sizeof *s->p->vertex_of);
    if (s->p->vertex_of == NULL) {
        return ST_NOMEM;
    }
    memcpy(s->p->vertex_of, s->t->devices, (size_t)n * sizeof *s->t->devices);
    TRY(read_trees(s, algo));
    return plan_check(s->p, s->t) == ST_OK
               ? ST_OK
               : log_fail(ST_INPUT, "%s: its trees are no allgather over the %d devices of %s",
                          s->path, n, s->t->name);
}

enum status plan_forestcoll_read(const char *path, const struct topo *t, struct plan **out)
{
    struct source s = {.path = path, .t = t};
    xmlDoc *doc =
        xmlReadFile(path, NULL, XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
    enum status st;

    if (doc == NULL) {
        const xmlError *error = xmlGetLastError();
        return log_fail(ST_INPUT, "%s:%d: not well-formed XML", path,
                        error != NULL ? error->line : 1);
    }
    st = read_doc(&s, doc);
    xmlFreeDoc(doc);
    if (st != ST_OK) {
        plan_destroy(s.p);
        return st;
    }
    *out = s.p;
    return ST_OK;
}
