#include "nn/tuning_table.h"

#include <stdio.h>
#include <string.h>

/* Copy the value of a line "name : value" of /proc/cpuinfo. */
static void take_field(const char *line, const char *name, char *out, size_t out_bytes)
{
    size_t length = strlen(name);
    const char *value;

    if (strncmp(line, name, length) != 0 || out[0] != '\0') {
        return;
    }
    value = line + length;
    value += strspn(value, "\t ");
    if (*value == ':') {
        value += 1 + strspn(value + 1, " ");
        snprintf(out, out_bytes, "%.*s", (int)strcspn(value, "\n"), value);
    }
}

void tuning_name_machine(char *out, size_t out_bytes)
{
    char line[512], model[48] = "", family[8] = "", number[8] = "";
    FILE *f = fopen("/proc/cpuinfo", "r");

    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        take_field(line, "model name", model, sizeof model);
        take_field(line, "cpu family", family, sizeof family);
        take_field(line, "model", number, sizeof number);
    }
    if (f != NULL) {
        fclose(f);
    }
    snprintf(out, out_bytes, "%s %s.%s", model[0] == '\0' ? "unknown" : model, family, number);
}
