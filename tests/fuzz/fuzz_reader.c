#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "topo/topo.h"
#include "topo/topo_import.h"

/* Feeds one reader of topologies, READER, which the build names: it may refuse but not crash or
 * leak. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = mem_alloc(size + 1, 1);
    struct topo *t = NULL;

    memcpy(text, data, size);
    if (READER("fuzz", text, size, &t) == ST_OK && t == NULL) {
        __builtin_trap();
    }
    topo_destroy(t);
    mem_free(text);
    if (mem_live() != 0) {
        __builtin_trap();
    }
    return 0;
}
