/* topo show. */
#include <string.h>

#include "cli/topo_tool.h"
#include "topo/topo_export.h"

static void print_topology(const struct topo *t)
{
    static const char *const kinds[] = {"gpu", "cpu", "switch", "nic", "net"};

    (void)printf("%s: %s\n%d devices, %d vertices, %d links\n\n", t->name, t->desc, t->n_devices,
                 t->n_vertices, t->n_links);
    (void)printf("  %-14s %-7s %5s %12s %12s\n", "vertex", "kind", "rank", "out GB/s", "in GB/s");
    for (int v = 0; v < t->n_vertices; v++) {
        double in = 0, out = 0;
        int rank = -1;
        for (int i = 0; i < t->n_links; i++) {
            out += t->links[i].from == v ? 1e-9 * (double)t->links[i].bytes_per_s : 0;
            in += t->links[i].to == v ? 1e-9 * (double)t->links[i].bytes_per_s : 0;
        }
        for (int r = 0; r < t->n_devices; r++) {
            rank = t->devices[r] == v ? r : rank;
        }
        (void)printf("  %-14s %-7s ", t->vertices[v].name, kinds[t->vertices[v].kind]);
        if (rank >= 0) {
            (void)printf("%5d %12.3f %12.3f\n", rank, out, in);
        } else {
            (void)printf("%5s %12.3f %12.3f\n", "", out, in);
        }
    }
    (void)printf("\n  %-14s %-14s %-8s %5s %10s %12s %8s\n", "from", "to", "kind", "lanes", "GB/s",
                 "effective", "us");
    for (int i = 0; i < t->n_links; i++) {
        const struct topo_link *l = &t->links[i];
        (void)printf("  %-14s %-14s %-8s %5d %10.3f %12.3f %8.3f\n", t->vertices[l->from].name,
                     t->vertices[l->to].name, l->kind, l->lanes, 1e-9 * (double)l->bytes_per_s,
                     1e-9 * (double)l->effective_bytes_per_s, 1e-3 * (double)l->latency_ns);
    }
}

enum status topo_show(const struct topo_options *o)
{
    struct topo *t;
    enum status st = ST_OK;

    TRY(topo_options_open(o, o->operand, &t));
    if (o->json) {
        st = topo_write_json(t, stdout);
    } else {
        print_topology(t);
    }
    topo_destroy(t);
    return st;
}
