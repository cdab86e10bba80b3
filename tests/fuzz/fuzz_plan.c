/* The reader and the checker of plan files, on the topology that the seeds were made for. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "comm/plan_forestcoll.h"
#include "comm/plan_json.h"
#include "topo/plan_verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[] =
        "topology t\ndevice a b c\nswitch s\nlink a s 2 B/s\nlink b s 2 B/s\nlink c s 2 B/s\n";
    char path[32];
    struct topo *t;
    struct plan *p = NULL;
    int fd = memfd_create("plan", 0);

    if (fd < 0 || write(fd, data, size) != (ssize_t)size ||
        topo_parse("fuzz", text, sizeof text - 1, &t) != ST_OK) {
        abort();
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (plan_json_read(path, t, &p) == ST_OK) {
        plan_destroy(p);
    }
    if (size > 0 && data[0] == '<' && plan_forestcoll_read(path, t, &p) == ST_OK) {
        plan_destroy(p);
    }
    if (plan_verify(path, t, NULL) == ST_OK && size < 100) {
        __builtin_trap();
    }
    topo_destroy(t);
    (void)close(fd);
    if (mem_live() != 0) {
        __builtin_trap();
    }
    return 0;
}
