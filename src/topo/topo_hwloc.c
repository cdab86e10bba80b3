/*
 * hwloc's tree of a machine as a lattice. Every core is a device. Every object with several
 * children that hold cores is a switch: a cache, a NUMA node (the object whose memory it is), a
 * die, a package. Packages are linked pairwise.
 *
 *     cpu0 ─┐       ┌─ cpu2          a package with two L3 caches and one NUMA node
 *           l3.0 ─ numa0 ─ l3.1 ...
 *     cpu1 ─┘
 */
#include <hwloc.h>
#include <libxml/tree.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "topo/topo_import.h"
#include "topo/topo_text.h"
#include "topo/topo_xml.h"

/* What is assumed of a link that leads up from a core, or to an object of some kind. */
struct assumed {
    const char *kind;
    int64_t gbs, latency_ns;
};

enum level {
    LEVEL_CORE,
    LEVEL_CACHE,
    LEVEL_MEMORY,
    LEVEL_PACKAGE,
    LEVEL_SOCKET
};

static const struct assumed assumed[] = {
    [LEVEL_CORE] = {"core", 12, 40},        /* one core copies no faster */
    [LEVEL_CACHE] = {"cache", 25, 40},      /* between caches */
    [LEVEL_MEMORY] = {"memory", 40, 90},    /* to the memory of a NUMA node, if hwloc knows none */
    [LEVEL_PACKAGE] = {"package", 40, 100}, /* inside a package */
    [LEVEL_SOCKET] = {"socket", 20, 130},   /* between packages */
};

struct walk {
    hwloc_topology_t machine;
    struct topo *t;
};

static enum status link_both(struct topo *t, int a, int b, enum level level, int64_t bytes_per_s)
{
    struct topo_link l = {.from = a,
                          .to = b,
                          .bytes_per_s = bytes_per_s,
                          .latency_ns = assumed[level].latency_ns,
                          .lanes = 1,
                          .kind = (char *)assumed[level].kind};

    return topo_add_both(t, &l);
}

/* Bandwidth of a NUMA node from its cores, as the firmware tells, or what is assumed. */
static int64_t memory_rate(const struct walk *w, hwloc_obj_t node)
{
    struct hwloc_location from = {.type = HWLOC_LOCATION_TYPE_CPUSET,
                                  .location = {.cpuset = node->cpuset}};
    hwloc_uint64_t mibs = 0;

    if (hwloc_memattr_get_value(w->machine, HWLOC_MEMATTR_ID_BANDWIDTH, node, &from, 0, &mibs) ==
            0 &&
        mibs > 0 && mibs < (1U << 24)) {
        return (int64_t)mibs << 20;
    }
    return assumed[LEVEL_MEMORY].gbs * 1000000000;
}

/* What kind of switch an object is, and its name. */
static enum level describe(hwloc_obj_t obj, char name[64])
{
    if (obj->memory_first_child != NULL) {
        hwloc_obj_t node = obj->memory_first_child;
        while (node->type != HWLOC_OBJ_NUMANODE && node->memory_first_child != NULL) {
            node = node->memory_first_child; /* below a memory-side cache */
        }
        (void)snprintf(name, 64, "numa%u", node->logical_index);
        return LEVEL_MEMORY;
    }
    if (hwloc_obj_type_is_cache(obj->type)) {
        (void)snprintf(name, 64, "l%u.%u", obj->attr->cache.depth, obj->logical_index);
        return LEVEL_CACHE;
    }
    (void)snprintf(name, 64, "%s%u",
                   obj->type == HWLOC_OBJ_PACKAGE   ? "package"
                   : obj->type == HWLOC_OBJ_MACHINE ? "machine"
                   : obj->type == HWLOC_OBJ_DIE     ? "die"
                                                    : "group",
                   obj->logical_index);
    if (obj->type == HWLOC_OBJ_GROUP) {
        /* Groups of several depths are numbered apart. */
        (void)snprintf(name, 64, "group%u.%u", obj->attr->group.depth, obj->logical_index);
    }
    return LEVEL_PACKAGE;
}

/* All packages, or what is left of them, linked pairwise. */
static enum status link_pairs(struct topo *t, const int *vertex, int n)
{
    for (int i = 0; i < n; i++) {
        for (int j = i + 1; j < n; j++) {
            enum level level = topo_is_device(t, vertex[i]) || topo_is_device(t, vertex[j])
                                   ? LEVEL_CORE
                                   : LEVEL_SOCKET;
            TRY(link_both(t, vertex[i], vertex[j], level, assumed[level].gbs * 1000000000));
        }
    }
    return ST_OK;
}

static enum status link_children(const struct walk *w, hwloc_obj_t obj, const int *vertex, int n,
                                 int *out)
{
    char name[64];
    enum level level = describe(obj, name);

    TRY(topo_add_vertex(w->t, name, TOPO_SWITCH, out));
    for (int i = 0; i < n; i++) {
        enum level here = topo_is_device(w->t, vertex[i]) ? LEVEL_CORE : level;
        int64_t rate = here == LEVEL_MEMORY ? memory_rate(w, obj->memory_first_child)
                                            : assumed[here].gbs * 1000000000;
        TRY(link_both(w->t, vertex[i], *out, here, rate));
    }
    return ST_OK;
}

/* The vertex that stands for `obj` and what is below it, -1 if that holds no core. */
static enum status visit(const struct walk *w, hwloc_obj_t obj, int *out)
{
    int n = 0, vertex[256];

    *out = -1;
    if (obj->type == HWLOC_OBJ_CORE || obj->type == HWLOC_OBJ_PU) {
        char name[64];
        (void)snprintf(name, sizeof name, "cpu%u", obj->logical_index);
        return topo_add_vertex(w->t, name, TOPO_CPU, out);
    }
    for (unsigned i = 0; i < obj->arity; i++) {
        int v;
        TRY(visit(w, obj->children[i], &v));
        if (v >= 0 && n == 256) {
            return log_fail(ST_INPUT, "a machine with more than 256 parts below one object");
        }
        if (v >= 0) {
            vertex[n++] = v;
        }
    }
    if (n == 1) {
        *out = vertex[0];
    } else if (n > 1 && obj->parent == NULL && obj->memory_first_child == NULL &&
               obj->children[0]->type == HWLOC_OBJ_PACKAGE) {
        TRY(link_pairs(w->t, vertex, n));
        *out = vertex[0];
    } else if (n > 1) {
        return link_children(w, obj, vertex, n, out);
    }
    return ST_OK;
}

static enum status load(hwloc_topology_t machine, const char *path, const char *text, size_t n)
{
    if (text != NULL) {
        xmlDoc *doc; /* hwloc itself does not tell where an error is */
        TRY(topo_xml_read(path, text, n, &doc));
        xmlFreeDoc(doc);
    }
    if (text != NULL &&
        (n >= INT_MAX || hwloc_topology_set_xmlbuffer(machine, text, (int)n + 1) != 0)) {
        return log_fail(ST_INPUT, "%s:1: not hwloc's XML of a machine", path);
    }
    if (hwloc_topology_load(machine) != 0) {
        return log_fail(ST_INPUT, "%s%s: hwloc cannot read the machine", path,
                        text != NULL ? ":1" : "");
    }
    return ST_OK;
}

enum status topo_import_hwloc(const char *path, const char *text, size_t n, struct topo **out)
{
    struct walk w = {NULL, NULL};
    enum status st;
    int root;

    if (hwloc_topology_init(&w.machine) != 0) {
        return ST_NOMEM;
    }
    st = load(w.machine, path, text, n);
    if (st == ST_OK) {
        st = topo_create(text != NULL ? "machine" : "host",
                         "cores found by hwloc, rates of copies assumed", &w.t);
    }
    if (st == ST_OK) {
        st = visit(&w, hwloc_get_root_obj(w.machine), &root);
    }
    if (st == ST_OK && w.t->n_devices == 0) {
        st = log_fail(ST_INPUT, "%s: hwloc tells of no cores", path);
    }
    if (st == ST_OK) {
        st = topo_check(w.t, path, 0);
    }
    hwloc_topology_destroy(w.machine);
    if (st != ST_OK) {
        topo_destroy(w.t);
        return st;
    }
    *out = w.t;
    return ST_OK;
}
