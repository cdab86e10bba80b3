#include "train/precision.h"

#include <string.h>

#include "base/log.h"
#include "train/state.h"

enum {
    FP16_SCALE = 65536, /* the smallest gradients that fp16 holds are then 2^-40 */
    MAX_SCALE = 1 << 24
};

enum graph_dtype precision_compute(const struct config *cfg)
{
    return strcmp(cfg->device.compute, "bf16") == 0   ? GRAPH_BF16
           : strcmp(cfg->device.compute, "fp16") == 0 ? GRAPH_FP16
                                                      : GRAPH_FP32;
}

enum status precision_check(const struct trainer *t)
{
    const struct config *cfg = t->cfg;

    if (precision_compute(cfg) == GRAPH_FP16 && !t->on_device) {
        return log_fail(ST_INPUT, "[device] compute = fp16 is for GPUs and cannot go with [device] "
                                  "type = cpu, use fp32 or bf16");
    }
    if (cfg->device.tf32 && (!t->on_device || precision_compute(cfg) != GRAPH_FP32)) {
        return log_fail(ST_INPUT,
                        "[device] tf32 = yes is for products of fp32 on GPUs and cannot go with "
                        "[device] type = %s and compute = %s, use tf32 = no",
                        cfg->device.type, cfg->device.compute);
    }
    if (strcmp(cfg->comm.wire, "fp32") != 0 && cfg->debug.verify_every > 0) {
        return log_fail(ST_INPUT,
                        "[debug] verify_every compares sums of fp32 and cannot go with [comm] wire "
                        "= %s, use wire = fp32",
                        cfg->comm.wire);
    }
    if (loss_scale_make(cfg).on && t->across) {
        return log_fail(ST_INPUT,
                        "[optim] loss_scale, or compute = fp16, skips a step when it has seen all "
                        "sums and cannot go with [comm] %s, use order = fifo and sync = allreduce",
                        t->rooted ? "sync = reduce-broadcast" : "order = priority");
    }
    return ST_OK;
}

struct loss_scale loss_scale_make(const struct config *cfg)
{
    const bool fp16 = precision_compute(cfg) == GRAPH_FP16;
    const double wish = cfg->optim.loss_scale;
    const float factor = wish > 0 ? (float)wish : fp16 ? (float)FP16_SCALE : 1.0f;

    return (struct loss_scale){.on = fp16 || factor != 1.0f,
                               .factor = factor < 1.0f ? 1.0f : factor,
                               .growth_steps = (uint64_t)cfg->optim.loss_scale_steps};
}

void loss_scale_step(struct loss_scale *s, bool overflow)
{
    if (!s->on) {
        return;
    }
    s->good = overflow ? 0 : s->good + 1;
    if (overflow) {
        s->factor = s->factor > 2 ? s->factor / 2 : 1;
    } else if (s->good == s->growth_steps) {
        s->factor = 2 * s->factor < (float)MAX_SCALE ? 2 * s->factor : (float)MAX_SCALE;
        s->good = 0;
    }
}
