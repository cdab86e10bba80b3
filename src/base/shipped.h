#ifndef BASE_SHIPPED_H
#define BASE_SHIPPED_H

#include "base/status.h"

/* A kind of files that come with the programs and are found by name. */
struct shipped {
    const char *noun;            /* for messages: "config file" */
    const char *folder, *suffix; /* "configs", ".ini" */
    const char *folder_hint;     /* ends the message that a folder was named; "" for nothing */
};

/*
 * The path of the file that `name` means, into `*out` (free with mem_free): `name` itself if there
 * is such a file; else, for a name without a folder, `folder/name` and `folder/name` with the
 * suffix here, and then in the folders above the one that the running program lies in. Errors:
 * ST_INPUT with the nearest name there is; ST_NOMEM.
 */
MUST_CHECK enum status shipped_find(const struct shipped *what, const char *name, char **out);

#endif
