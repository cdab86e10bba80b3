#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "train/metrics.h"
#include "train/state.h"

static const char *text(double v, char out[32])
{
    return metrics_real(v, 6, out);
}

/* Images seen after `steps` steps from the start. */
static uint64_t images_after(const struct trainer *t, uint64_t steps)
{
    const struct schedule *s = &t->schedule;
    const uint64_t global = (uint64_t)s->batch * s->accum * (uint64_t)s->n_ranks;
    const uint64_t in_epoch = s->drop_last ? t->steps_per_epoch * global : s->n;
    const uint64_t rest = steps % t->steps_per_epoch * global;

    return steps / t->steps_per_epoch * in_epoch + (rest < in_epoch ? rest : in_epoch);
}

static void describe_data(const struct trainer *t, FILE *out)
{
    size_t shape[3];

    dataset_shape(t->train, shape);
    fprintf(out,
            "data              %s, %zu training and %zu test images of %zux%zux%zu, %d classes\n",
            t->cfg->data.dataset, dataset_n(t->train), dataset_n(t->test), shape[0], shape[1],
            shape[2], net_classes(t->net));
}

static void describe_devices(const struct trainer *t, FILE *out)
{
    fprintf(out, "devices           %d x %s, %d thread%s each%s, %s, %s\n", t->n_ranks,
            t->cfg->device.type, t->n_threads, t->n_threads == 1 ? "" : "s",
            t->pinned ? " on cores of its own" : "", nn_ops_version(t->ops),
            t->cfg->device.compute);
    if (t->on_device) {
        fprintf(out, "passes            %s\n",
                strcmp(t->cfg->device.graph, "off") == 0 ? "call by call: [device] graph = off"
                : t->device->capture_begin == NULL ? "call by call: the devices have no graphs"
                                                   : "as graphs, captured in the first steps");
    }
}

static void describe_batches(const struct trainer *t, FILE *out)
{
    const struct schedule *s = &t->schedule;
    const size_t global = s->batch * s->accum * (size_t)s->n_ranks;
    const size_t last = schedule_slice(s, t->steps_per_epoch - 1, 0, 0).n_global;

    fprintf(out, "batch per device  %zu\n", s->batch);
    fprintf(out, "accumulation      %zu\n", s->accum);
    fprintf(out, "global batch      %zu = %zu * %zu * %d devices\n", global, s->batch, s->accum,
            s->n_ranks);
    fprintf(out, "steps per epoch   %" PRIu64, t->steps_per_epoch);
    if (last != global) {
        fprintf(out, ", the last one with %zu images", last);
    }
    fprintf(out, "\nsteps             %" PRIu64 ", %" PRIu64 " images\n", t->total_steps,
            images_after(t, t->total_steps));
}

static void describe_optimizer(const struct trainer *t, FILE *out)
{
    const struct config_optim *o = &t->cfg->optim;
    char lr[32], momentum[32], decay[32];

    fprintf(out, "learning rate     %s, %s%s\n", text(o->scale_lr ? o->lr * t->n_ranks : o->lr, lr),
            o->policy, o->scale_lr ? ", multiplied by the number of devices" : "");
    fprintf(out, "optimizer         SGD, momentum %s%s, weight decay %s%s\n",
            text(o->momentum, momentum), o->nesterov ? " (Nesterov)" : "",
            text(o->weight_decay, decay), o->decay_norm_bias ? "" : " (not on norms and biases)");
    fprintf(out, "weights           %s, %s%s\n",
            t->n_ranks == 1 ? "of one device"
            : t->shared     ? "shared by the devices"
                            : "replicated on every device",
            t->fused ? "updated where the sums arise" : "not updated where the sums arise: ",
            t->fused ? "" : t->not_fused);
}

void describe_table(const struct trainer *t, FILE *out)
{
    char flops[32];

    fprintf(out, "model             %s, %zu parameters, %s MFLOP forward per image\n",
            net_name(t->net), net_param_elements(t->net),
            text(net_forward_flops(t->net) / 1e6, flops));
    describe_data(t, out);
    describe_devices(t, out);
    describe_batches(t, out);
    describe_optimizer(t, out);
    comm_describe(t->comm, out);
    if (t->rooted) {
        comm_describe(t->sharing, out);
    }
}

static void describe_memory(const struct trainer *t, FILE *out)
{
    const struct graph_memory m = graph_memory(t->ranks[0].graph);
    const size_t arena = t->n * sizeof(float);
    const size_t copies = t->shared ? 1 : (size_t)t->n_ranks;
    const size_t gradients = (size_t)t->n_ranks * (t->schedule.accum > 1 ? 2 : 1);
    const size_t each =
        m.activations + m.gradients_of_activations + m.workspace + m.derived_weights;
    const size_t total = arena * (copies * (t->cfg->optim.momentum != 0 ? 2 : 1) + gradients) +
                         (size_t)t->n_ranks * each;
    char a[32], b[32], c[32], d[32];

    fprintf(out, "memory            %s of weights%s, %s of gradients\n",
            text_bytes(copies * arena, a),
            t->cfg->optim.momentum != 0 ? " and as much momentum" : "",
            text_bytes(gradients * arena, b));
    fprintf(
        out,
        "                  per device %s of activations, %s of their gradients, %s of work space",
        text_bytes(m.activations, a), text_bytes(m.gradients_of_activations, b),
        text_bytes(m.workspace, c));
    fprintf(out, ", %s of weights in other layouts\n", text_bytes(m.derived_weights, d));
    fprintf(out, "                  %s in all, data set and batches aside\n", text_bytes(total, a));
}

void trainer_describe(const struct trainer *t, FILE *out)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t old = c == (locale_t)0 ? (locale_t)0 : uselocale(c);

    net_print(t->net, out);
    fputc('\n', out);
    describe_table(t, out);
    describe_memory(t, out);
    if (c != (locale_t)0) {
        (void)uselocale(old);
        freelocale(c);
    }
}
