#ifndef CONFIG_CONFIG_TABLE_H
#define CONFIG_CONFIG_TABLE_H

#include <stddef.h>

#include "config/config.h"

/* Private to the config module: the table of keys from which everything else is made. */

enum key_type {
    KEY_INT,    /* int64_t */
    KEY_REAL,   /* double */
    KEY_BYTES,  /* uint64_t */
    KEY_BOOL,   /* bool */
    KEY_TEXT,   /* char * */
    KEY_CHOICE, /* char *, one of `choices` */
    KEY_REALS,  /* struct config_reals */
};

enum key_flag {
    KEY_OPEN_MIN = 1, /* the bound itself is out of range */
    KEY_OPEN_MAX = 2,
    KEY_EMPTY = 4, /* no text, or an empty list, is a value */
    KEY_WHOLE = 8, /* a list of whole numbers */
    KEY_LOCAL = 16 /* ranks may differ in it */
};

struct config_key {
    const char *section, *name;
    size_t offset; /* in struct config */
    enum key_type type;
    const char *fallback; /* the default, as text */
    double min, max;      /* of a number, or of each one in a list */
    unsigned flags;
    const char *choices; /* "a|b|c" */
    const char *help;    /* one sentence */
    const char *habits;  /* "a|b": what the key is called elsewhere; for hints only */
};

size_t config_table_n(void);

/* Key `i` in the order of docs and effective config; sections are contiguous. */
const struct config_key *config_table_at(size_t i);

/* The index of a key, or config_table_n(). */
size_t config_table_find(const char *section, const char *name);

/* Is there a section of this name? */
bool config_table_has_section(const char *section);

/* One sentence about a section, for help and docs. */
const char *config_table_section_help(const char *section);

#endif
