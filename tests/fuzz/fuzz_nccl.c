#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "topo/topo_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = mem_alloc(size + 1, 1);
    struct topo *t = NULL;

    memcpy(text, data, size);
    if (topo_import_nccl("fuzz", text, size, &t) == ST_OK && t == NULL) {
        __builtin_trap();
    }
    topo_destroy(t);
    mem_free(text);
    if (mem_live() != 0) {
        __builtin_trap();
    }
    return 0;
}
