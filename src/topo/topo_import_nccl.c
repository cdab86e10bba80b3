/*
 * <system><cpu numaid><pci busid class link_speed link_width>...<gpu dev sm><nvlink target count/>
 *
 * Elements nest as the PCIe tree does. A <pci> that holds a GPU or a NIC is that device; any other
 * is a switch. The tree is walked once for the vertices and PCIe links, and once more for NVLink,
 * whose targets may come later in the file.
 */
#include <libxml/tree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "topo/nccl_rates.h"
#include "topo/topo_import.h"
#include "topo/topo_text.h"
#include "topo/topo_xml.h"

enum {
    MAX_DEPTH = 32,
    MAX_ELEMENTS = 8192
};

struct import {
    const char *path;
    struct topo *t;
    int n_elements, n_gpus, n_cpus;
    xmlNode **gpus; /* [n_gpus] the <pci> of each, or its <gpu> if that has none */
    int *gpu_vertex;
    int net;
};

static enum status bad(const struct import *m, const xmlNode *e, const char *what, const char *word)
{
    return log_fail(ST_INPUT, "%s:%ld: %s '%.64s'", m->path, xmlGetLineNo(e), what, word);
}

static bool is(const xmlNode *e, const char *name)
{
    return e->type == XML_ELEMENT_NODE && strcmp((const char *)e->name, name) == 0;
}

/* The attribute into `out`, "" if there is none; longer ones are cut. */
static const char *attr(const xmlNode *e, const char *name, char out[64])
{
    xmlChar *value = xmlGetNoNsProp(e, (const xmlChar *)name);

    (void)snprintf(out, 64, "%s", value != NULL ? (const char *)value : "");
    xmlFree(value);
    return out;
}

/* An attribute as a number; `missing` if it is absent or empty. */
static enum status number(const struct import *m, const xmlNode *e, const char *name,
                          double missing, double low, double high, double *out)
{
    char word[64];

    *out = missing;
    if (attr(e, name, word)[0] == '\0') {
        return ST_OK;
    }
    if (!text_to_double(word, out) || *out < low || *out > high) {
        return log_fail(ST_INPUT, "%s:%ld: attribute %s is '%s', a number from %g to %g is needed",
                        m->path, xmlGetLineNo(e), name, word, low, high);
    }
    return ST_OK;
}

/* Add to the rates and lanes of a direction that may exist already. */
static enum status add_rate(struct import *m, const xmlNode *e, const struct topo_link *l)
{
    if (l->from == l->to) {
        return bad(m, e, "a link from a vertex to itself,", m->t->vertices[l->from].name);
    }
    for (int i = 0; i < m->t->n_links; i++) {
        struct topo_link *o = &m->t->links[i];
        if (o->from == l->from && o->to == l->to && strcmp(o->kind, l->kind) == 0) {
            o->bytes_per_s += l->bytes_per_s;
            o->effective_bytes_per_s += l->effective_bytes_per_s;
            o->lanes += l->lanes;
            return ST_OK;
        }
    }
    return topo_add_link(m->t, l);
}

static enum status add_both(struct import *m, const xmlNode *e, struct topo_link l)
{
    int from = l.from;

    TRY(add_rate(m, e, &l));
    l.from = l.to;
    l.to = from;
    return add_rate(m, e, &l);
}

static const xmlNode *child(const xmlNode *e, const char *name)
{
    for (const xmlNode *c = e->children; c != NULL; c = c->next) {
        if (is(c, name)) {
            return c;
        }
    }
    return NULL;
}

/* A vertex of that name; a number is appended if the name is taken. */
static enum status add_vertex(struct import *m, const xmlNode *e, const char *name,
                              enum topo_kind kind, int *index)
{
    char unique[80];

    (void)snprintf(unique, sizeof unique, "%s", name);
    for (int k = 2; topo_find_vertex(m->t, unique) >= 0; k++) {
        (void)snprintf(unique, sizeof unique, "%.60s.%d", name, k);
    }
    if (!topo_name_ok(unique)) {
        return bad(m, e, "cannot make a name of", name);
    }
    return topo_add_vertex(m->t, unique, kind, index);
}

static enum status pci_link(struct import *m, const xmlNode *e, int parent, int vertex)
{
    struct topo_link l = {.from = parent, .to = vertex, .latency_ns = 1000, .kind = (char *)"pcie"};
    char speed[64];
    double width;

    TRY(number(m, e, "link_width", 16, 0, 32, &width));
    l.lanes = width < 1 ? 16 : (int)width;
    nccl_pci_rates(attr(e, "link_speed", speed), l.lanes, &l);
    return add_both(m, e, l);
}

static enum status add_gpu(struct import *m, xmlNode *pci, const xmlNode *gpu, int parent)
{
    char name[80], dev[64];
    double number_of;

    if (m->n_gpus == 1024) {
        return bad(m, pci, "more than 1024 GPUs in", "the file");
    }
    if (gpu != NULL && attr(gpu, "dev", dev)[0] != '\0') {
        TRY(number(m, gpu, "dev", 0, 0, 65535, &number_of));
        (void)snprintf(name, sizeof name, "gpu%d", (int)number_of);
    } else {
        (void)snprintf(name, sizeof name, "gpu%d", m->n_gpus);
    }
    m->gpus[m->n_gpus] = pci;
    TRY(add_vertex(m, pci, name, TOPO_GPU, &m->gpu_vertex[m->n_gpus]));
    return pci_link(m, pci, parent, m->gpu_vertex[m->n_gpus++]);
}

/* The ports of a NIC; those of one card share their name's vertex. */
static enum status add_ports(struct import *m, const xmlNode *nic, int vertex)
{
    for (const xmlNode *c = nic->children; c != NULL; c = c->next) {
        struct topo_link l = {.from = vertex, .kind = (char *)"net", .lanes = 1};
        char dev[64];
        double mbit, us;
        if (!is(c, "net") || attr(c, "dev", dev)[0] == '\0') {
            continue;
        }
        TRY(number(m, c, "speed", 10000, -1e9, 1e8, &mbit));
        TRY(number(m, c, "latency", 0, 0, 1e6, &us));
        if (m->net < 0) {
            TRY(topo_add_vertex(m->t, "net", TOPO_NET, &m->net));
        }
        l.to = m->net;
        l.bytes_per_s = (int64_t)((mbit <= 0 ? 10000 : mbit) * 125000);
        l.effective_bytes_per_s = l.bytes_per_s;
        l.latency_ns = (int64_t)(us * 1000);
        TRY(add_both(m, c, l));
    }
    return ST_OK;
}

static enum status add_nic(struct import *m, const xmlNode *pci, const xmlNode *nic, int parent)
{
    const xmlNode *net = child(nic, "net");
    char name[80], dev[64];
    int vertex;

    if (net == NULL || attr(net, "dev", dev)[0] == '\0') {
        return ST_OK; /* a port that is not used */
    }
    (void)snprintf(name, sizeof name, "nic%.40s", dev);
    TRY(add_vertex(m, nic, name, TOPO_NIC, &vertex));
    TRY(pci_link(m, pci != NULL ? pci : nic, parent, vertex));
    return add_ports(m, nic, vertex);
}

static enum status walk(struct import *m, xmlNode *e, int parent, int depth);

static enum status walk_pci(struct import *m, xmlNode *e, int parent, int depth)
{
    const xmlNode *gpu = child(e, "gpu"), *nic = child(e, "nic");
    char class[64], bus[64], name[80];
    int vertex;

    (void)attr(e, "class", class);
    if (attr(e, "busid", bus)[0] == '\0') {
        return bad(m, e, "an element without a busid,", "pci");
    }
    if (gpu != NULL || (strncmp(class, "0x03", 4) == 0 && nic == NULL)) {
        return add_gpu(m, e, gpu, parent);
    }
    if (nic != NULL) {
        return add_nic(m, e, nic, parent);
    }
    if (strncmp(class, "0x02", 4) == 0 || child(e, "pci") == NULL) {
        return ST_OK; /* a NIC without ports, or a switch with nothing below it */
    }
    (void)snprintf(name, sizeof name, "pci-%.50s", bus);
    TRY(add_vertex(m, e, name, TOPO_SWITCH, &vertex));
    TRY(pci_link(m, e, parent, vertex));
    return walk(m, e, vertex, depth + 1);
}

/* The children of an element whose vertex is `parent`. */
static enum status walk(struct import *m, xmlNode *e, int parent, int depth)
{
    if (depth > MAX_DEPTH) {
        return bad(m, e, "elements nest more than 32 deep at", (const char *)e->name);
    }
    for (xmlNode *c = e->children; c != NULL; c = c->next) {
        if (c->type == XML_ELEMENT_NODE && ++m->n_elements > MAX_ELEMENTS) {
            return bad(m, c, "more than 8192 elements, at", (const char *)c->name);
        }
        if (is(c, "pci")) {
            TRY(walk_pci(m, c, parent, depth));
        } else if (is(c, "nic")) {
            TRY(add_nic(m, NULL, c, parent));
        }
    }
    return ST_OK;
}

static enum status walk_cpus(struct import *m, xmlNode *system)
{
    int cpus[64];

    for (xmlNode *c = system->children; c != NULL; c = c->next) {
        char name[80], numa[64];
        if (!is(c, "cpu")) {
            continue;
        }
        if (m->n_cpus == 64) {
            return bad(m, c, "more than 64 elements", "cpu");
        }
        (void)snprintf(name, sizeof name, "numa%.20s", attr(c, "numaid", numa));
        TRY(add_vertex(m, c, name, TOPO_SWITCH, &cpus[m->n_cpus]));
        for (int i = 0; i < m->n_cpus; i++) {
            struct topo_link l = {.from = cpus[i],
                                  .to = cpus[m->n_cpus],
                                  .lanes = 1,
                                  .latency_ns = 500,
                                  .kind = (char *)"smp"};
            char vendor[64], arch[64];
            double family, model;
            TRY(number(m, c, "familyid", 0, 0, 1e6, &family));
            TRY(number(m, c, "modelid", 0, 0, 1e6, &model));
            l.bytes_per_s = nccl_socket_rate(attr(c, "arch", arch), attr(c, "vendor", vendor),
                                             (int)family, (int)model);
            TRY(add_both(m, c, l));
        }
        m->n_cpus++;
        TRY(walk(m, c, cpus[m->n_cpus - 1], 1));
    }
    return m->n_cpus > 0 ? ST_OK : bad(m, system, "no element", "cpu");
}

/* The GPU with that bus id, or -1. */
static int find_gpu(const struct import *m, const char *bus)
{
    for (int g = 0; g < m->n_gpus; g++) {
        char own[64];
        if (strcasecmp(attr(m->gpus[g], "busid", own), bus) == 0) {
            return m->gpu_vertex[g];
        }
    }
    return -1;
}

static enum status add_nvlink(struct import *m, const xmlNode *gpu, const xmlNode *e, int from)
{
    bool xgmi = is(e, "xgmi");
    struct topo_link l = {.from = from, .latency_ns = 1000};
    char target[64], class[64], gcn[64];
    double count, sm;

    TRY(number(m, e, "count", 1, 1, 1024, &count));
    TRY(number(m, gpu, "sm", 70, 0, 1000, &sm));
    l.lanes = (int)count;
    l.kind = (char *)(xgmi ? "xgmi" : "nvlink");
    if (xgmi) {
        nccl_xgmi_rates(attr(gpu, "gcn", gcn), l.lanes, &l);
    } else {
        nccl_nvlink_rates((int)sm, l.lanes, &l);
    }
    (void)attr(e, "target", target);
    (void)attr(e, "tclass", class);
    l.to = find_gpu(m, target);
    if (l.to >= 0) {
        return add_rate(m, e, &l); /* the target lists its own direction */
    }
    if (strncmp(class, "0x03", 4) == 0) {
        return ST_OK; /* a GPU that is not part of this file */
    }
    if (strncmp(class, "0x0680", 6) != 0 && strncmp(target, "fffffff", 7) != 0) {
        return bad(m, e, "a link to an unknown target", target);
    }
    l.to = topo_find_vertex(m->t, "nvswitch");
    if (l.to < 0) {
        TRY(topo_add_vertex(m->t, "nvswitch", TOPO_SWITCH, &l.to));
    }
    return add_both(m, e, l);
}

/* The socket that a GPU hangs below, for chip-to-chip links. */
static int find_socket(const struct import *m, const xmlNode *e)
{
    char numa[64], name[80];

    while (e != NULL && !is(e, "cpu")) {
        e = e->parent;
    }
    if (e == NULL) {
        return -1;
    }
    (void)snprintf(name, sizeof name, "numa%.20s", attr(e, "numaid", numa));
    return topo_find_vertex(m->t, name);
}

static enum status add_c2c(struct import *m, const xmlNode *e, int from)
{
    struct topo_link l = {.from = from, .latency_ns = 500, .kind = (char *)"c2c"};
    double count, mb;

    TRY(number(m, e, "count", 1, 1, 1024, &count));
    TRY(number(m, e, "bw", 0, 1, 1e8, &mb));
    l.to = find_socket(m, e);
    l.lanes = (int)count;
    l.bytes_per_s = (int64_t)(count * mb * 1e6);
    l.effective_bytes_per_s = l.bytes_per_s;
    return mb > 0 && l.to >= 0 ? add_both(m, e, l) : ST_OK;
}

static enum status walk_nvlinks(struct import *m)
{
    for (int g = 0; g < m->n_gpus; g++) {
        const xmlNode *gpu = child(m->gpus[g], "gpu");
        for (const xmlNode *e = gpu != NULL ? gpu->children : NULL; e != NULL; e = e->next) {
            if (is(e, "nvlink") || is(e, "xgmi")) {
                TRY(add_nvlink(m, gpu, e, m->gpu_vertex[g]));
            } else if (is(e, "c2c")) {
                TRY(add_c2c(m, e, m->gpu_vertex[g]));
            }
        }
    }
    return ST_OK;
}

static enum status build(struct import *m, xmlDoc *doc)
{
    xmlNode *system = xmlDocGetRootElement(doc);

    m->gpus = mem_alloc(1024, sizeof(xmlNode *));
    m->gpu_vertex = mem_alloc(1024, sizeof *m->gpu_vertex);
    if (m->gpus == NULL || m->gpu_vertex == NULL) {
        return ST_NOMEM;
    }
    if (system == NULL || !is(system, "system")) {
        return log_fail(ST_INPUT,
                        "%s:1: the root element is not 'system', so this is no topology "
                        "written by NCCL",
                        m->path);
    }
    TRY(topo_create("imported", "from an NCCL topology file", &m->t));
    TRY(walk_cpus(m, system));
    if (m->n_gpus == 0) {
        return bad(m, system, "no GPU below", "system");
    }
    TRY(walk_nvlinks(m));
    return topo_check(m->t, m->path, 0);
}

enum status topo_import_nccl(const char *path, char *text, size_t n, struct topo **out)
{
    struct import m = {.path = path, .net = -1};
    xmlDoc *doc;
    enum status st;

    TRY(topo_xml_read(path, text, n, &doc));
    st = build(&m, doc);
    xmlFreeDoc(doc);
    mem_free(m.gpus);
    mem_free(m.gpu_vertex);
    if (st != ST_OK) {
        topo_destroy(m.t);
        return st;
    }
    *out = m.t;
    return ST_OK;
}
