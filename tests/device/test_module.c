/* Loading the CUDA module: every way to fail has a message of its own. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

#include "device/device.h"
#include "device/module.h"

#define LIB(name) TEST_BINARY_DIR "/lib/tests/" name ".so"
#define DRIVER "libm.so.6" /* any library that is there */

static void expect_failure(const char *path, const char *driver, const char *symbol,
                           const char *const *words)
{
    struct module_place place = {path, driver};
    const void *found = &place;
    char text[4096] = "";
    size_t n;

    cr_assert_eq(module_load(&place, symbol, &found), ST_UNSUPPORTED);
    cr_assert_eq(found, &place, "it is left alone");
    fflush(stderr);
    n = fread(text, 1, sizeof text - 1, cr_get_redirected_stderr());
    text[n] = '\0';
    for (; *words != NULL; words++) {
        cr_assert(strstr(text, *words) != NULL, "no '%s' in: %s", *words, text);
    }
    cr_assert_eq(strchr(text, '\n') - text + 1, (long)n, "one line: %s", text);
}

#define EXPECT(path, driver, symbol, ...)                                                          \
    expect_failure(path, driver, symbol, (const char *const[]){__VA_ARGS__, NULL})

Test(module, no_file, .init = cr_redirect_stderr)
{
    EXPECT("/nowhere/espalier_cuda.so", DRIVER, "x", "no CUDA module", "/nowhere/espalier_cuda.so",
           "-DESPALIER_CUDA=ON", "type = cpu");
}

Test(module, no_driver, .init = cr_redirect_stderr)
{
    EXPECT(LIB("module_bare"), "libno-such-driver.so.1", "x", "NVIDIA driver",
           "libno-such-driver.so.1", "type = cpu");
}

Test(module, not_loadable, .init = cr_redirect_stderr)
{
    EXPECT("/dev/null", DRIVER, "x", "cannot load", "/dev/null", "CUDA libraries");
}

Test(module, not_a_module, .init = cr_redirect_stderr)
{
    EXPECT(LIB("module_stranger"), DRIVER, "x", "not a module", "module_stranger.so");
}

Test(module, of_another_version, .init = cr_redirect_stderr)
{
    char abi[32];

    snprintf(abi, sizeof abi, "version %d", MODULE_ABI + 1);
    EXPECT(LIB("module_old"), DRIVER, "x", abi, "build both again");
}

Test(module, without_the_table, .init = cr_redirect_stderr)
{
    EXPECT(LIB("module_bare"), DRIVER, "no_table", "has no no_table", "module_bare.so");
}

Test(module, a_table_is_found_and_stays)
{
    struct module_place place = {LIB("module_bare"), DRIVER};
    const void *first = NULL, *again = NULL;

    cr_assert_eq(module_load(&place, "bare_table", &first), ST_OK);
    cr_assert_eq(((const int *)first)[1], 8);
    cr_assert_eq(module_load(&place, "bare_table", &again), ST_OK);
    cr_assert_eq(first, again);
}

Test(module, devices_are_found_by_type, .init = cr_redirect_stderr)
{
    const struct device_ops *ops = NULL;

    cr_assert_eq(device_find("cpu", &ops), ST_OK);
    cr_assert_eq(ops, &device_cpu);
    cr_assert_eq(device_find("abacus", &ops), ST_INPUT);
    cr_assert_eq(ops, &device_cpu);
}
