#include "cli/version.h"

#include "device/module.h"
#include "nn/graph.h"
#include "cli/version_commit.h" /* made by version.cmake at build time */

void version_print(const char *program, FILE *out)
{
    const char *cuda = module_built_with();

    (void)fprintf(out, "%s (espalier) %s, %s\n", program, VERSION_NUMBER, VERSION_COMMIT);
    (void)fprintf(out, "compiler: %s\n", __VERSION__);
    (void)fprintf(out, "cpu: %s\n", nn_ops_version(nn_ops_find("cpu")));
    (void)fprintf(out, "cuda: %s\n", cuda != NULL ? cuda : "not in this build");
}
