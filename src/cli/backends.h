#ifndef CLI_BACKENDS_H
#define CLI_BACKENDS_H

#include <stdio.h>

/* What may be given as a backend, a line each, for --help. */
void backends_print(FILE *out);

#endif
