#include "cli/version.h"

#include "nn/graph.h"
#include "cli/version_commit.h" /* made by version.cmake at build time */

void version_print(const char *program, FILE *out)
{
    static const char *const device_types[] = {"cpu", "cuda"};

    (void)fprintf(out, "%s (espalier) %s, %s\n", program, VERSION_NUMBER, VERSION_COMMIT);
    (void)fprintf(out, "compiler: %s\n", __VERSION__);
    for (size_t i = 0; i < sizeof device_types / sizeof device_types[0]; i++) {
        const struct nn_ops *ops = nn_ops_find(device_types[i]);
        (void)fprintf(out, "%s: %s\n", device_types[i],
                      ops != NULL ? nn_ops_version(ops) : "not in this build");
    }
}
