#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/nccl/nccl.h"
#include "comm/nccl/nccl_library.h"

#define SONAME "libnccl.so.2"

static void *open_at(const char *folder, const char *sub)
{
    char *path = mem_printf("%s/%s/" SONAME, folder, sub);
    void *found = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) : NULL;

    mem_free(path);
    return found;
}

/* Toolkits put it where the loader does not look. */
static void *open_toolkit(void)
{
    const char *home = getenv("CUDA_HOME");
    const char *const folders[] = {home != NULL ? home : "/usr/local/cuda", "/usr/local/cuda"};
    void *found = NULL;

    for (size_t i = 0; found == NULL && i < 2; i++) {
        found = open_at(folders[i], "lib64");
        found = found == NULL ? open_at(folders[i], "lib") : found;
    }
    return found;
}

static enum status open_library(const char *path, void **out)
{
    const char *reason;

    *out = dlopen(path != NULL ? path : SONAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (*out != NULL) {
        return ST_OK;
    }
    reason = dlerror();
    if (path == NULL) {
        *out = open_toolkit();
    }
    return *out != NULL ? ST_OK
                        : log_fail(ST_UNSUPPORTED,
                                   "[comm] backend = nccl: the library is missing (%s), install "
                                   "libnccl2 or choose another backend",
                                   reason != NULL ? reason : "unknown error");
}

/* The slots of the table are function pointers in the order of NCCL_FUNCTIONS. */
static enum status find_functions(void *handle, const char *path, struct nccl_library *lib)
{
    static const struct {
        const char *name;
        size_t slot;
    } functions[] = {
#define X(type, name, args) {"nccl" #name, offsetof(struct nccl_library, name)},
        NCCL_FUNCTIONS(X)
#undef X
    };

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(handle, functions[i].name);
        if (found == NULL) {
            return log_fail(ST_UNSUPPORTED,
                            "[comm] backend = nccl: %s has no function %s, install NCCL 2.13 or "
                            "newer",
                            path != NULL ? path : SONAME, functions[i].name);
        }
        memcpy((char *)lib + functions[i].slot, &found, sizeof found);
    }
    return ST_OK;
}

/* 22809 is 2.28.9; before 2.9 it was 2804 for 2.8.4. */
static enum status read_version(struct nccl_library *lib)
{
    int v = 0, result = lib->GetVersion(&v);

    if (result != NCCL_RESULT_OK) {
        return log_fail(ST_UNSUPPORTED,
                        "[comm] backend = nccl: the library does not tell its version (%s), "
                        "install another one",
                        lib->GetErrorString(result));
    }
    if (v < 10000) {
        snprintf(lib->version, sizeof lib->version, "NCCL %d.%d.%d", v / 1000, v % 1000 / 100,
                 v % 100);
    } else {
        snprintf(lib->version, sizeof lib->version, "NCCL %d.%d.%d", v / 10000, v % 10000 / 100,
                 v % 100);
    }
    return ST_OK;
}

enum status nccl_load(const char *path, struct nccl_library **out)
{
    struct nccl_library *lib;
    void *handle;
    enum status st;

    TRY(open_library(path, &handle));
    lib = mem_alloc(1, sizeof *lib);
    st = lib != NULL ? find_functions(handle, path, lib) : ST_NOMEM;
    st = st == ST_OK ? read_version(lib) : st;
    (void)dlclose(handle); /* it stays loaded */
    if (st != ST_OK) {
        nccl_unload(lib);
        return st;
    }
    *out = lib;
    return ST_OK;
}

void nccl_unload(struct nccl_library *lib)
{
    mem_free(lib);
}

const char *nccl_version(const struct nccl_library *lib)
{
    return lib->version;
}

enum status nccl_refuse(void)
{
    struct nccl_library *lib;
    enum status st;

    TRY(nccl_load(NULL, &lib));
    st = log_fail(ST_UNSUPPORTED,
                  "[comm] backend = nccl (%s is installed) moves memory of GPUs only, use it with "
                  "[device] type = cuda or commbench --type cuda on a machine with a GPU for each "
                  "rank, or choose another backend",
                  nccl_version(lib));
    nccl_unload(lib);
    return st;
}
