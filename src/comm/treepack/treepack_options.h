#ifndef TREEPACK_TREEPACK_OPTIONS_H
#define TREEPACK_TREEPACK_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/*
 * What treepack takes as text, words with blanks between them:
 *
 *     exact                       the optimum (default)
 *     k=N                         N trees per root
 *     mwu [eps=E] [threshold=T]   Blink's approximate packing (0.1, 0.05)
 *     hybrid=KINDS [switch-us=X]  two planes: links of these kinds, and all others
 *     three-phase                 several servers: inside, across, inside
 */
struct treepack_options {
    int64_t k;
    bool mwu, phases;
    double epsilon, threshold, switch_s;
    char hybrid[64];
};

/* NULL and "" give the defaults. Errors: ST_INPUT, logged with the word. */
MUST_CHECK enum status treepack_options_read(const char *text, struct treepack_options *out);

#endif
