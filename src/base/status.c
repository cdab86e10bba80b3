#include "base/status.h"

const char *status_text(enum status st)
{
    switch (st) {
#define X(name, text, code)                                                                        \
    case ST_##name:                                                                                \
        return text;
        STATUS_MAP(X)
#undef X
    }
    return "unknown status";
}

int status_exit_code(enum status st)
{
    switch (st) {
#define X(name, text, code)                                                                        \
    case ST_##name:                                                                                \
        return code;
        STATUS_MAP(X)
#undef X
    }
    return 1;
}
