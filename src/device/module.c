#include "device/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

static const char *loader_error(void)
{
    const char *text = dlerror();

    return text != NULL ? text : "unknown error";
}

/* The driver first: it is small, and without it the rest need not be loaded. */
static enum status check_driver(const struct module_place *place)
{
    void *driver = dlopen(place->driver, RTLD_LAZY | RTLD_LOCAL);

    if (driver == NULL) {
        return log_fail(ST_UNSUPPORTED,
                        "[device] type = cuda needs the NVIDIA driver, which is missing (%s), "
                        "install it on a machine with a GPU or set [device] type = cpu",
                        loader_error());
    }
    (void)dlclose(driver);
    return ST_OK;
}

static enum status check_info(const struct module_place *place, void *module)
{
    const struct module_info *info = dlsym(module, MODULE_INFO);

    if (info == NULL) {
        return log_fail(ST_UNSUPPORTED, "%s is not a module of espalier, build again", place->path);
    }
    if (info->abi != MODULE_ABI) {
        return log_fail(ST_UNSUPPORTED,
                        "the CUDA module %s has version %u and this program %d, build both again",
                        place->path, info->abi, MODULE_ABI);
    }
    return ST_OK;
}

enum status module_load(const struct module_place *place, const char *symbol, const void **out)
{
    const void *found;
    enum status st;
    void *module;

    if (access(place->path, R_OK) != 0) {
        return log_fail(ST_UNSUPPORTED,
                        "[device] type = cuda: this build has no CUDA module, %s, build with "
                        "-DESPALIER_CUDA=ON where the CUDA toolkit is or set [device] type = cpu",
                        place->path);
    }
    TRY(check_driver(place));
    module = dlopen(place->path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (module == NULL) {
        return log_fail(ST_UNSUPPORTED,
                        "cannot load the CUDA module (%s), install the CUDA libraries that it was "
                        "built with or set [device] type = cpu",
                        loader_error());
    }
    st = check_info(place, module);
    found = st == ST_OK ? dlsym(module, symbol) : NULL;
    if (st == ST_OK && found == NULL) {
        st = log_fail(ST_UNSUPPORTED, "the CUDA module %s has no %s, build again", place->path,
                      symbol);
    }
    (void)dlclose(module); /* it stays loaded */
    if (st == ST_OK) {
        *out = found;
    }
    return st;
}

/* lib/espalier_cuda.so beside the folder of the running program; `path` holds PATH_MAX + 32. */
static bool find_path(char *path)
{
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);

    if (n < 0) {
        return false;
    }
    path[n] = '\0';
    for (int up = 0; up < 2; up++) { /* bin/train -> the folder that holds bin and lib */
        char *slash = strrchr(path, '/');
        if (slash != NULL) {
            *slash = '\0';
        }
    }
    strcat(path, "/lib/espalier_cuda.so");
    return true;
}

enum status module_find(const char *symbol, const void **out)
{
    char path[PATH_MAX + 32];
    struct module_place place = {.path = path, .driver = "libcuda.so.1"};

    if (!find_path(path)) {
        return log_fail(ST_UNSUPPORTED, "cannot find the folder of this program, /proc/self/exe, "
                                        "mount /proc or set [device] type = cpu");
    }
    return module_load(&place, symbol, out);
}

const char *module_built_with(void)
{
    char path[PATH_MAX + 32];
    const struct module_info *info;
    void *module;

    module = find_path(path) ? dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE) : NULL;
    if (module == NULL) {
        return NULL;
    }
    info = dlsym(module, MODULE_INFO);
    (void)dlclose(module); /* it stays loaded */
    return info != NULL && info->abi == MODULE_ABI ? info->built_with : NULL;
}
