/* summary.json: complete enough to redraw a figure without the other files. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "train/state.h"

/* JSON has no word for values that are not finite. */
static json_t *real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *count(uint64_t n)
{
    return json_integer((json_int_t)n);
}

/* The sections of an INI text as objects of strings. */
static json_t *parse_sections(char *ini)
{
    json_t *all = json_object(), *section = NULL;
    char *save = NULL;

    for (char *line = strtok_r(ini, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        char *equals = strstr(line, " =");
        if (line[0] == '[') {
            line[strcspn(line, "]")] = '\0';
            section = json_object();
            (void)json_object_set_new(all, line + 1, section);
        } else if (line[0] != '#' && line[0] != ';' && equals != NULL && section != NULL) {
            const char *value = equals + 2 + (equals[2] == ' ');
            *equals = '\0';
            (void)json_object_set_new(section, line, json_string(value));
        }
    }
    return all;
}

static json_t *config_object(const struct config *cfg)
{
    char *ini = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&ini, &n);
    json_t *result;

    if (f == NULL) {
        return NULL;
    }
    config_write(cfg, f);
    result = fclose(f) == 0 ? parse_sections(ini) : NULL;
    free(ini);
    return result;
}

static json_t *host_object(void)
{
    struct utsname u;

    if (uname(&u) != 0) {
        return json_null();
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:I}", "name", u.nodename, "system", u.sysname,
                     "release", u.release, "machine", u.machine, "cores",
                     (json_int_t)sysconf(_SC_NPROCESSORS_ONLN));
}

static json_t *devices_array(const struct trainer *t)
{
    json_t *all = json_array();

    for (int r = 0; r < t->n_ranks; r++) {
        double rate = (double)t->totals.rank_images[r] / t->totals.timed.times.step_s;
        char name[32];
        (void)snprintf(name, sizeof name, "%s:%d", t->cfg->device.type, r);
        (void)json_array_append_new(
            all, json_pack("{s:i, s:s, s:i, s:b, s:o, s:o, s:o}", "rank", r, "device", name,
                           "threads", t->n_threads, "pinned", t->pinned, "images",
                           count(t->totals.rank_images[r]), "images_per_s", real(rate), "graphs",
                           count(graph_n_captured(t->ranks[r].graph))));
    }
    return all;
}

static json_t *work_object(const struct trainer *t)
{
    const struct schedule *s = &t->schedule;

    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "parameters",
                     count(net_param_elements(t->net)), "training_images", count(s->n),
                     "test_images", count(t->test_schedule.n), "batch_per_device", count(s->batch),
                     "accum_steps", count(s->accum), "global_batch",
                     count(s->batch * s->accum * (uint64_t)s->n_ranks), "steps_per_epoch",
                     count(t->steps_per_epoch), "steps_planned", count(t->total_steps), "devices",
                     count((uint64_t)t->n_ranks));
}

static json_t *result_object(const struct trainer *t)
{
    const struct trainer_summary *s = &t->summary;

    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "steps", count(s->steps),
                     "images", count(s->samples), "skipped_steps", count(t->totals.skipped),
                     "train_loss", real(s->train_loss), "test_loss", real(s->test_loss),
                     "test_top1", real(s->top1), "test_top5", real(s->top5), "test_images",
                     count(s->test_n), "test_correct", count(s->test_top1_n));
}

/* After the warm-up: images_per_s * seconds = images; the times are sums of means over the ranks.
 */
static json_t *speed_object(const struct trainer *t)
{
    const struct tally *k = &t->totals.timed;

    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "warmup_steps",
                     count(t->warmup_steps), "steps", count(k->steps), "images", count(k->images),
                     "seconds", real(k->times.step_s), "images_per_s", real(tally_images_per_s(k)),
                     "images_per_s_per_device", real(tally_images_per_s(k) / t->n_ranks),
                     "compute_s", real(k->times.compute_s), "comm_hidden_s",
                     real(k->times.hidden_s), "comm_exposed_s", real(k->times.exposed_s), "data_s",
                     real(k->times.data_s), "all_steps_s", real(t->totals.seconds));
}

static json_t *comm_object(const struct trainer *t)
{
    json_t *buckets = json_array(), *layers = json_array();

    for (size_t i = 0; i < t->comm_cfg.bucket_layers.n; i++) {
        (void)json_array_append_new(layers, count((uint64_t)t->comm_cfg.bucket_layers.v[i]));
    }
    for (size_t b = 0; b < t->n_buckets; b++) {
        const struct plan *p = comm_plan(t->comm, b);
        const struct bucket_times k = report_bucket_times(t, b);
        (void)json_array_append_new(
            buckets, json_pack("{s:s, s:o, s:s, s:o, s:o, s:o}", "layers", t->labels[b], "bytes",
                               count(t->buckets[b].n * sizeof(float)), "backend", p->backend,
                               "in_flight_s", real(k.in_flight_s), "hidden_s", real(k.hidden_s),
                               "exposed_s", real(k.exposed_s)));
    }
    return json_pack("{s:s, s:s, s:b, s:s, s:b, s:b, s:o, s:s, s:o}", "backend",
                     t->n_buckets > 0 ? comm_plan(t->comm, 0)->backend : t->cfg->comm.backend,
                     "topology", t->topo->name, "overlap", t->cfg->comm.overlap, "order",
                     t->cfg->comm.order, "shared_weights", t->shared, "fused_update", t->fused,
                     "bucket_layers", layers, "chunks", t->comm_cfg.chunks, "buckets", buckets);
}

static json_t *summary_object(const struct trainer *t, enum status result)
{
    char digest[32];

    (void)snprintf(digest, sizeof digest, "%016" PRIx64, config_digest(t->cfg));
    return json_pack("{s:s, s:s, s:o, s:s, s:o, s:{s:s, s:s}, s:o, s:o, s:o, s:o, s:o, s:o}",
                     "format", "espalier-run/1", "status", status_text(result), "config",
                     config_object(t->cfg), "config_digest", digest, "seed",
                     count((uint64_t)t->cfg->train.seed), "versions", "espalier", ESPALIER_VERSION,
                     "ops", nn_ops_version(t->ops), "host", host_object(), "devices",
                     devices_array(t), "work", work_object(t), "result", result_object(t), "speed",
                     speed_object(t), "comm", comm_object(t));
}

enum status summary_write(const struct trainer *t, enum status result)
{
    char *path = rundir_file(t->rundir, "summary.json");
    json_t *all = summary_object(t, result);
    enum status st = ST_OK;

    if (path == NULL || all == NULL) {
        st = log_fail(ST_NOMEM, "no memory for the summary of the run, free some");
    } else if (json_dump_file(all, path, JSON_INDENT(2)) != 0) {
        st = log_fail(ST_IO,
                      "cannot write the summary, %s: %s, leave the folder in place and make "
                      "room",
                      path, strerror(errno));
    }
    json_decref(all);
    mem_free(path);
    return st;
}
