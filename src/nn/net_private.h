#ifndef NN_NET_PRIVATE_H
#define NN_NET_PRIVATE_H

#include "nn/net.h"

/* Shared by net.c, which keeps the description, and net_layers.c, which knows the kinds of layers.
 */
struct net {
    char *name;
    struct layer *layers;
    struct param *params;
    bool *used; /* by layer: does another layer read its value? */
    int n_layers, n_params;
    int classes;        /* 0 until net_finish */
    enum status status; /* the first error; nothing is built after it */
};

size_t net_shape_n(struct shape s);

/* Log an error of layer `name` once, keep it and return -1. */
int net_refuse(struct net *n, const char *name, const char *fmt, ...) PRINTF_LIKE(3, 4);

/*
 * Start a layer that reads the values x[n_x]: check them, name it (`name`; NULL: the kind and its
 * number), and take the first input's shape for its output. False after an error, which is kept.
 */
bool net_draft(struct net *n, struct layer *l, enum layer_kind kind, const char *name, const int *x,
               int n_x);

/* Take the drafted layer into the net; returns the number of its value, or -1. */
int net_take(struct net *n, const struct layer *l);

/* Give the layer that was made last (value `x`, -1 passes) one more parameter; returns `x` or -1.
 */
int net_take_param(struct net *n, int x, struct param p);

#endif
