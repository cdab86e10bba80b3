/* In place of topo_hwloc.c where the library is not installed. */
#include "base/log.h"
#include "topo/topo_import.h"

enum status topo_import_hwloc(const char *path, const char *text, size_t n, struct topo **out)
{
    (void)text;
    (void)n;
    (void)out;
    return log_fail(ST_UNSUPPORTED,
                    "%s: this program was built without hwloc, which finds the cores, caches and "
                    "sockets of a machine; install libhwloc-dev, configure and build again",
                    path);
}
