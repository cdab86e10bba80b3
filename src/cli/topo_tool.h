#ifndef CLI_TOPO_TOOL_H
#define CLI_TOPO_TOOL_H

#include <stdbool.h>
#include <stdio.h>

#include "base/status.h"
#include "cli/args.h"
#include "comm/plan.h"
#include "topo/topo.h"

/* What the command line of topo says. Texts point into argv. */
struct topo_options {
    const char *operand; /* TOPOLOGY, PLAN or FILE; or --topology */
    const char *topology, *collective, *devices, *links, *backend, *plan, *out, *format, *options,
        *type;
    int root;
    int n_devices;  /* probe */
    size_t n_bytes; /* of the message a plan is for; 0: unlimited */
    bool json, measure;
};

struct topo_command {
    const char *name, *operand, *help;
    enum status (*run)(const struct topo_options *o);
};

/* Errors: ST_BADARG, logged. */
MUST_CHECK enum status topo_options_read(struct topo_options *o, const struct topo_command *c,
                                         int argc, const char *const *argv);
void topo_options_print(FILE *out);

/* Replace a topology by what --devices and --links leave of it; NULL on failure. Errors: ST_INPUT,
 * ST_NOMEM. */
MUST_CHECK enum status topo_options_cut(const struct topo_options *o, struct topo **io);

/* The topology that is named, cut down to --devices and --links. Errors: ST_INPUT, ST_NOMEM. */
MUST_CHECK enum status topo_options_open(const struct topo_options *o, const char *name,
                                         struct topo **out);

/* stdout or the file of --out; close with topo_out_close. Errors: ST_IO. */
MUST_CHECK enum status topo_out_open(const struct topo_options *o, FILE **f);
MUST_CHECK enum status topo_out_close(const struct topo_options *o, FILE *f);

/* The commands. */
MUST_CHECK enum status topo_show(const struct topo_options *o);
MUST_CHECK enum status topo_plan(const struct topo_options *o);
MUST_CHECK enum status topo_check_plan(const struct topo_options *o);
MUST_CHECK enum status topo_draw(const struct topo_options *o);
MUST_CHECK enum status topo_import(const struct topo_options *o);
MUST_CHECK enum status topo_probe(const struct topo_options *o);

#endif
