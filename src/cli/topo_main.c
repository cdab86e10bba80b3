/* topo: shows topologies, plans collectives on them, checks and draws plans. See --help. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "cli/topo_tool.h"

static const struct topo_command commands[] = {
    {"show", "TOPOLOGY", "the devices and links as a table (--json: as JSON)", topo_show},
    {"plan", "TOPOLOGY", "the best plan with its proof, beside what other backends reach",
     topo_plan},
    {"check", "PLAN", "check a plan file from the definitions alone", topo_check_plan},
    {"draw", "TOPOLOGY", "draw it, with the trees of a plan, through Graphviz", topo_draw},
    {"import", "FILE", "turn a description by another program into a .topo file or a plan",
     topo_import},
    {"probe", NULL, "measure the links between the cores at hand, or ask for those of GPUs",
     topo_probe},
};

enum {
    N_COMMANDS = sizeof commands / sizeof commands[0]
};

static void print_help(void)
{
    (void)fputs("Topologies and the plans of collectives on them.\n\n", stdout);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        (void)printf("  topo %-7s %-9s %s\n", commands[i].name,
                     commands[i].operand != NULL ? commands[i].operand : "", commands[i].help);
    }
    (void)fputs("\nTOPOLOGY is a .topo file, a name in topologies/, or host, the machine at\n"
                "hand. It may follow --topology.\n\n"
                "Flags (--flag VALUE or --flag=VALUE):\n",
                stdout);
    topo_options_print(stdout);
    (void)fputs("\nExit codes: 0 success; 1 run-time failure; 2 bad usage or input.\n", stdout);
}

static const struct topo_command *find_command(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static enum status unknown_command(const char *name)
{
    const char *names[N_COMMANDS], *near;

    for (size_t i = 0; i < N_COMMANDS; i++) {
        names[i] = commands[i].name;
    }
    near = text_nearest(name, names, N_COMMANDS);
    return log_fail(ST_BADARG, "unknown command, %.64s, %s%s", name,
                    near != NULL ? "did you mean " : "--help lists all", near != NULL ? near : "");
}

static enum status run(int argc, const char *const *argv)
{
    const struct topo_command *command;
    struct topo_options o;
    enum status st;

    if (argc < 2) {
        return log_fail(ST_BADARG, "a command is missing, topo, --help lists all");
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help();
            return args_flush_stdout();
        }
    }
    command = find_command(argv[1]);
    if (command == NULL) {
        return unknown_command(argv[1]);
    }
    TRY(topo_options_read(&o, command, argc, argv));
    st = command->run(&o);
    return st == ST_OK ? args_flush_stdout() : st;
}

int main(int argc, char **argv)
{
    return status_exit_code(run(argc, (const char *const *)argv));
}
