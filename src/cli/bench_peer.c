#include "cli/bench_peer.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

extern char **environ;

/* Every installed MPI has its own launcher, by the names that distributions give them. */
static const struct peer {
    const char *name, *launcher;
} peers[] = {{"mpi", "mpirun"}, {"openmpi", "mpirun.openmpi"}, {"mpich", "mpirun.mpich"}};

static const struct peer *find_peer(const char *name)
{
    for (size_t i = 0; i < sizeof peers / sizeof *peers; i++) {
        if (strcmp(peers[i].name, name) == 0) {
            return &peers[i];
        }
    }
    return NULL;
}

bool bench_peer_known(const char *peer)
{
    return find_peer(peer) != NULL;
}

/* The path of commbench-<peer>, or an error if it was not built. */
static enum status find_program(const char *peer, char path[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - sizeof "-openmpi");

    if (n < 0) {
        return log_fail(ST_INTERNAL, "cannot tell where this program is, %s", strerror(errno));
    }
    path[n] = '-';
    strcpy(path + n + 1, peer);
    if (access(path, X_OK) != 0) {
        return log_fail(ST_UNSUPPORTED,
                        "there is no %s, it is built where that MPI is installed, install it and "
                        "build again",
                        path);
    }
    return ST_OK;
}

static enum status wait_for(pid_t child)
{
    int how;

    if (waitpid(child, &how, 0) < 0) {
        return log_fail(ST_INTERNAL, "cannot wait for mpirun, %s", strerror(errno));
    }
    if (!WIFEXITED(how) || WEXITSTATUS(how) != 0) {
        return log_fail(ST_INTERNAL, "mpirun ended with code %d, see above",
                        WIFEXITED(how) ? WEXITSTATUS(how) : -1);
    }
    return ST_OK;
}

enum status bench_peer_run(const char *peer, int n_ranks, int argc, char **argv)
{
    char program[PATH_MAX], count[16];
    char *launcher[] = {(char *)(uintptr_t)find_peer(peer)->launcher, (char *)(uintptr_t) "-np",
                        count, program};
    char **words;
    pid_t child;
    int err;

    TRY(find_program(peer, program));
    words = mem_alloc((size_t)argc + 4, sizeof *words);
    if (words == NULL) {
        return ST_NOMEM;
    }
    (void)snprintf(count, sizeof count, "%d", n_ranks);
    memcpy(words, launcher, sizeof launcher);
    memcpy(words + 4, argv + 1, (size_t)(argc - 1) * sizeof *words);
    /* What Open MPI asks of root, and of more processes than cores; others ignore it. */
    (void)setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    (void)setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    (void)setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
    err = posix_spawnp(&child, launcher[0], NULL, NULL, words, environ);
    mem_free(words);
    if (err != 0) {
        return log_fail(ST_UNSUPPORTED, "cannot start %s, %s, install that MPI", launcher[0],
                        strerror(err));
    }
    return wait_for(child);
}
