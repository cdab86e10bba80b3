#include "cli_testing.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_WORDS = 64,
    MAX_SECONDS = 120,
    SIDE = 8,
};

/* --- files */

const char *cli_folder(void)
{
    static char folder[64];

    if (folder[0] == '\0') {
        (void)snprintf(folder, sizeof folder, "/tmp/espalier-cli-%ld", (long)getpid());
        cr_assert(mkdir(folder, 0700) == 0, "%s is in the way", folder);
    }
    return folder;
}

const char *cli_path(const char *name)
{
    static char paths[8][1024];
    static unsigned next;
    char *path = paths[next++ % 8];

    (void)snprintf(path, sizeof paths[0], "%s/%s", cli_folder(), name);
    return path;
}

void cli_clean(void)
{
    char command[128];

    (void)snprintf(command, sizeof command, "rm -rf '%s'", cli_folder());
    cr_assert_eq(system(command), 0);
}

void cli_write_file(const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(cli_path(name), "wb");

    cr_assert_not_null(f, "%s", name);
    cr_assert_eq(fwrite(bytes, 1, n, f), n);
    cr_assert_eq(fclose(f), 0);
}

static void read_text(const char *path, char out[CLI_TEXT_BYTES])
{
    FILE *f = fopen(path, "rb");
    size_t n = f != NULL ? fread(out, 1, CLI_TEXT_BYTES - 1, f) : 0;

    out[n] = '\0';
    if (f != NULL) {
        (void)fclose(f);
    }
}

const char *cli_read_file(const char *name)
{
    static char text[CLI_TEXT_BYTES];

    read_text(cli_path(name), text);
    return text;
}

bool cli_exists(const char *name)
{
    struct stat info;

    return stat(cli_path(name), &info) == 0;
}

/* --- data */

static void put_u32(uint8_t *to, size_t v)
{
    for (int i = 0; i < 4; i++) {
        to[i] = (uint8_t)(v >> (24 - 8 * i));
    }
}

void cli_write_idx(const char *part, size_t n, int classes)
{
    size_t pixels = SIDE * SIDE;
    uint8_t *images = calloc(16 + n * pixels, 1), *labels = calloc(8 + n, 1);
    char name[64];

    cr_assert(images != NULL && labels != NULL);
    put_u32(images, 0x803);
    put_u32(images + 4, n);
    put_u32(images + 8, SIDE);
    put_u32(images + 12, SIDE);
    put_u32(labels, 0x801);
    put_u32(labels + 4, n);
    for (size_t i = 0; i < n; i++) {
        size_t class = i % (size_t)classes;
        labels[8 + i] = (uint8_t) class;
        for (size_t p = 0; p < pixels; p++) {
            size_t noise = (i * 7919 + p * 104729) % 32;
            bool bright = p % (size_t)classes == class;
            images[16 + i * pixels + p] = (uint8_t)((bright ? 200 : 20) + noise);
        }
    }
    (void)snprintf(name, sizeof name, "%s-images", part);
    cli_write_file(name, images, 16 + n * pixels);
    (void)snprintf(name, sizeof name, "%s-labels", part);
    cli_write_file(name, labels, 8 + n);
    free(images);
    free(labels);
}

void cli_set_label(const char *part, size_t i, uint8_t label)
{
    char name[64];
    FILE *f;

    (void)snprintf(name, sizeof name, "%s-labels", part);
    f = fopen(cli_path(name), "r+b");
    cr_assert_not_null(f);
    cr_assert_eq(fseek(f, (long)(8 + i), SEEK_SET), 0);
    cr_assert_neq(fputc(label, f), EOF);
    cr_assert_eq(fclose(f), 0);
}

void cli_write_tiny(size_t n)
{
    char text[1024];

    cli_write_idx("train", n, 10);
    cli_write_idx("test", 21, 10);
    (void)snprintf(text, sizeof text,
                   "[data]\ndataset = idx\npath = %s\ntrain_images = train-images\n"
                   "train_labels = train-labels\ntest_images = test-images\n"
                   "test_labels = test-labels\n"
                   "[model]\nname = mlp\nhidden = 8\n"
                   "[train]\nepochs = 1\nbatch_per_device = 8\noutput = %s/run\n"
                   "[optim]\nlr = 0.05\n[log]\nlog_every = 1\nprogress = off\n",
                   cli_folder(), cli_folder());
    cli_write_file("tiny.ini", text, strlen(text));
}

/* --- processes */

static pid_t start(const char *const *words, const char *out)
{
    const char *folder = cli_folder(); /* made here and not by the child */
    const char *argv[MAX_WORDS] = {TEST_BINARY_DIR "/bin/train"};
    pid_t process;
    size_t n = 1;

    while (*words != NULL && n + 1 < MAX_WORDS) {
        argv[n++] = *words++;
    }
    cr_assert_null(*words);
    process = fork();
    cr_assert_geq(process, 0);
    if (process == 0) {
        int out_fd =
            open(out != NULL ? out : cli_path("stdout"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        int err_fd = open(cli_path("stderr"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (out_fd >= 0 && err_fd >= 0 && dup2(out_fd, 1) == 1 && dup2(err_fd, 2) == 2 &&
            chdir(folder) == 0 && setenv("XDG_CACHE_HOME", cli_path("cache"), 1) == 0) {
            execv(argv[0], (char **)(uintptr_t)argv);
        }
        _exit(126);
    }
    return process;
}

int cli_start(const char *const *words)
{
    return start(words, NULL);
}

void cli_finish(int process, struct cli_outcome *o)
{
    const struct timespec pause = {0, 2000000};
    time_t end = time(NULL) + MAX_SECONDS;
    int status = 0;
    pid_t done;

    while ((done = waitpid(process, &status, WNOHANG)) == 0 && time(NULL) < end) {
        (void)nanosleep(&pause, NULL);
    }
    if (done == 0) {
        (void)kill(process, SIGKILL);
        (void)waitpid(process, &status, 0);
        o->code = -1;
    } else {
        o->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    read_text(cli_path("stdout"), o->out);
    read_text(cli_path("stderr"), o->err);
    o->n_err = cli_count(o->err, "\n");
}

void cli_run(struct cli_outcome *o, const char *const *words)
{
    cli_finish(start(words, NULL), o);
}

void cli_run_to(struct cli_outcome *o, const char *path, const char *const *words)
{
    (void)unlink(cli_path("stdout"));
    cli_finish(start(words, path), o);
}

void cli_tiny(struct cli_outcome *o, const char *const *sets)
{
    const char *words[3 + 2 * CLI_MAX_SETS] = {"--config", cli_path("tiny.ini")};
    size_t n = 2;

    while (*sets != NULL && n < 2 + 2 * CLI_MAX_SETS) {
        words[n++] = "--set";
        words[n++] = *sets++;
    }
    cr_assert_null(*sets);
    cli_run(o, words);
}

/* --- checks */

size_t cli_count(const char *text, const char *part)
{
    size_t n = 0;

    for (const char *p = text; (p = strstr(p, part)) != NULL; p += strlen(part)) {
        n++;
    }
    return n;
}

void cli_check_refused(const struct cli_outcome *o, int code, const char *const *words)
{
    cr_assert_eq(o->code, code, "code %d: %s", o->code, o->err);
    cr_assert_eq(o->n_err, 1, "not one line: %s", o->err);
    cr_assert_eq(strncmp(o->err, "train: error: ", 14), 0, "%s", o->err);
    for (; *words != NULL; words++) {
        cr_assert_not_null(strstr(o->err, *words), "'%s' is not in: %s", *words, o->err);
    }
    cr_assert_null(strstr(o->out, "step="), "%s", o->out);
    cr_assert_not(cli_exists("run"), "a folder for results was made");
}
