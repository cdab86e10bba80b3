#include "cli/bench_results.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

static const char header[] = "backend,collective,topology,ranks,bytes,count,type,redop,root,"
                             "in_place,iterations,time_s,predicted_s,algbw_gbs,busbw_gbs,wrong\n";

struct bench_results {
    FILE *file;
    char *path;
    bool json, add, head_due;
    size_t n_rows;
};

/* Everybody writes at its end. */
static FILE *open_file(const char *path, bool add)
{
    FILE *f = fopen(path, add ? "a" : "w");

    if (f != NULL) {
        (void)fcntl(fileno(f), F_SETFL, O_APPEND);
    }
    return f;
}

enum status bench_results_open(const char *path, bool add, struct bench_results **out)
{
    struct bench_results *r = mem_alloc(1, sizeof *r);
    enum status st = ST_OK;

    if (r == NULL) {
        return ST_NOMEM;
    }
    r->path = mem_strdup(path);
    if (r->path == NULL) {
        st = ST_NOMEM;
    } else if (path[0] != '\0') {
        r->json = strcmp(strrchr(path, '.'), ".json") == 0;
        r->add = add;
        r->file = open_file(path, add);
        if (r->file == NULL) {
            st = log_fail(ST_IO, "cannot write the results, %s, %s", path, strerror(errno));
        }
    }
    if (st != ST_OK) {
        mem_free(r->path);
        mem_free(r);
        return st;
    }
    if (r->file != NULL && !add) {
        (void)fputs(r->json ? "[" : header, r->file);
        (void)fflush(r->file); /* an error stays and is found at the end */
    }
    *out = r;
    return ST_OK;
}

void bench_results_begin(struct bench_results *r)
{
    r->head_due = true;
}

static void print_head(const struct bench_spec *spec)
{
    printf("# backend %s, %s over %d devices of topology %s\n", spec->backend,
           collective_name(spec->collective), spec->topo->n_devices, spec->topo->name);
    printf("# %12s %12s %9s %6s %5s", "size(B)", "count", "type", "redop", "root");
    for (int k = 0; k < 2; k++) {
        printf("  | %10s %10s %8s %8s %7s", k == 0 ? "time(us)" : "in place", "predicted", "algbw",
               "busbw", "#wrong");
    }
    printf("\n");
}

static void print_place(const struct bench_result *p, bool checked)
{
    if (p == NULL) {
        printf("  | %10s %10s %8s %8s %7s", "-", "-", "-", "-", "-");
        return;
    }
    printf("  | %10.2f %10.2f %8.2f %8.2f ", p->time_s * 1e6, p->predicted_s * 1e6, p->algbw_gbs,
           p->busbw_gbs);
    if (checked) {
        printf("%7zu", p->wrong);
    } else {
        printf("%7s", "N/A");
    }
}

static void write_row(struct bench_results *r, const struct bench_spec *s,
                      const struct bench_result *p, bool in_place)
{
    const char *csv = "%s,%s,%s,%d,%zu,%zu,%s,%s,%d,%d,%zu,%.9g,%s,%.6g,%.6g,";
    const char *json = "{\"backend\": \"%s\", \"collective\": \"%s\", \"topology\": \"%s\", "
                       "\"ranks\": %d, \"bytes\": %zu, \"count\": %zu, \"type\": \"%s\", "
                       "\"redop\": \"%s\", \"root\": %d, \"in_place\": %d, \"iterations\": %zu, "
                       "\"time_s\": %.9g, \"predicted_s\": %s, \"algbw_gbs\": %.6g, "
                       "\"busbw_gbs\": %.6g, \"wrong\": ";
    size_t bytes = s->n * dtype_bytes(s->dtype);
    char predicted[32];

    if (r->json) {
        (void)fputs(r->n_rows++ == 0 && !r->add ? "\n" : ",\n", r->file);
    }
    (void)snprintf(predicted, sizeof predicted, "%.9g", p->predicted_s);
    if (isnan(p->predicted_s)) {
        strcpy(predicted, r->json ? "null" : "nan");
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)fprintf(r->file, r->json ? json : csv, p->backend, collective_name(s->collective),
                  s->topo->name, s->topo->n_devices, bytes, s->n, dtype_name(s->dtype),
                  redop_name(s->redop), s->root, in_place, p->n_iterations, p->time_s, predicted,
                  p->algbw_gbs, p->busbw_gbs);
#pragma GCC diagnostic pop
    if (s->check) {
        (void)fprintf(r->file, "%zu", p->wrong);
    } else {
        (void)fputs(r->json ? "null" : "nan", r->file);
    }
    (void)fputs(r->json ? "}" : "\n", r->file);
    (void)fflush(r->file);
}

void bench_results_line(struct bench_results *r, const struct bench_spec *spec,
                        const struct bench_result *const place[2])
{
    bool rooted = collective_has_root(spec->collective);

    if (r->head_due) {
        print_head(spec);
        r->head_due = false;
    }
    printf("  %12zu %12zu %9s %6s %5d", spec->n * dtype_bytes(spec->dtype), spec->n,
           dtype_name(spec->dtype),
           collective_has_up(spec->collective) ? redop_name(spec->redop) : "none",
           rooted ? spec->root : -1);
    for (int k = 0; k < 2; k++) {
        print_place(place[k], spec->check);
        if (place[k] != NULL && strcmp(spec->backend, place[k]->backend) != 0) {
            printf(" (%s)", place[k]->backend);
        }
        if (r->file != NULL && place[k] != NULL) {
            write_row(r, spec, place[k], k == 1);
        }
    }
    printf("\n");
}

enum status bench_results_close(struct bench_results *r)
{
    enum status st = ST_OK;

    if (r == NULL) {
        return ST_OK;
    }
    if (r->file != NULL) {
        if (r->json && !r->add) {
            (void)fputs("\n]\n", r->file);
        }
        bool failed = ferror(r->file) != 0;
        if ((fclose(r->file) != 0) || failed) {
            st = log_fail(ST_IO, "cannot write the results, %s, is the disk full?", r->path);
        }
    }
    mem_free(r->path);
    mem_free(r);
    return st;
}
