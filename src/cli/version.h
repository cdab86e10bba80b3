#ifndef CLI_VERSION_H
#define CLI_VERSION_H

#include <stdio.h>

/* "<program> <version> (<commit>)" and the versions of compiler and libraries, one a line. */
void version_print(const char *program, FILE *out);

#endif
