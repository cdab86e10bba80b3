#ifndef BASE_STATUS_H
#define BASE_STATUS_H

/* The one error type. Whoever detects an error logs it once (base/log.h); callers pass it up. */
#define STATUS_MAP(X)                                                                              \
    X(OK, "success", 0)                                                                            \
    X(NOMEM, "out of memory", 1)                                                                   \
    X(IO, "input/output error", 1)                                                                 \
    X(INTERNAL, "internal error", 1)                                                               \
    X(BADARG, "invalid argument", 2)                                                               \
    X(INPUT, "bad input", 2)                                                                       \
    X(UNSUPPORTED, "not supported here", 2)                                                        \
    X(NONFINITE, "non-finite loss", 3)                                                             \
    X(PEER, "a peer rank failed or went away", 4)                                                  \
    X(TIMEOUT, "timed out", 4)                                                                     \
    X(CANCELLED, "cancelled by a signal", 128)

enum status {
#define X(name, text, code) ST_##name,
    STATUS_MAP(X)
#undef X
};

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

/* Pass a failure up. Only for functions that hold nothing to release. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        enum status try_st_ = (call);                                                              \
        if (try_st_ != ST_OK) {                                                                    \
            return try_st_;                                                                        \
        }                                                                                          \
    } while (0)

/* A short English text for `st`; never NULL. */
const char *status_text(enum status st);

/*
 * The exit code of a program that ends with `st`: 0 success, 1 run-time failure, 2 bad usage,
 * config or input, 3 non-finite loss, 4 communication time-out or lost rank. For ST_CANCELLED it is
 * 128, to which the caller adds the number of the signal.
 */
int status_exit_code(enum status st);

#endif
