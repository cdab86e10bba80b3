/*
 *         GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity
 *  GPU0    X      NV2     PIX     0-19            0
 *  GPU1   NV2      X      SYS     20-39           1
 *  NIC0   PIX     SYS      X
 *
 * Cells: X, NV<lanes>, PIX, PXB, PHB, NODE, SYS. The levels are nested sets, each of which becomes
 * a switch. A pair joined by NVLink hides its PCIe level: equal CPU affinity counts as PHB,
 * different as SYS.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "topo/topo_import.h"
#include "topo/topo_text.h"

enum {
    MAX_NODES = 128,
    N_LEVELS = 5,
    LANE = 25,
    MOST_LANES = 18
};

enum level {
    PIX,
    PXB,
    PHB,
    NODE,
    SYS,
    SELF,
    HIDDEN
};

struct node {
    char name[32], affinity[64];
    bool gpu;
    int line;
};

struct matrix {
    const char *path;
    int n, n_rows, line;
    struct node node[MAX_NODES];
    enum level level[MAX_NODES][MAX_NODES];
    int lanes[MAX_NODES][MAX_NODES];
};

static enum status bad(const struct matrix *m, const char *what, const char *word)
{
    return log_fail(ST_INPUT, "%s:%d: %s '%.64s'", m->path, m->line, what, word);
}

/* Remove the escape sequences that underline the header on a terminal. */
static void strip_escapes(char *p)
{
    char *out = p;

    while (*p != '\0') {
        if (*p == '\033') {
            p += strcspn(p, "m\n");
            p += *p == 'm';
        } else {
            *out++ = *p++;
        }
    }
    *out = '\0';
}

static char *next_word(char **p)
{
    char *word = *p + strspn(*p, " \t\r");
    size_t n = strcspn(word, " \t\r");

    *p = word + n;
    if (**p != '\0') {
        *(*p)++ = '\0';
    }
    return n > 0 ? word : NULL;
}

static bool is_gpu(const char *word)
{
    return strncmp(word, "GPU", 3) == 0 && word[3] >= '0' && word[3] <= '9' &&
           word[3 + strspn(word + 3, "0123456789")] == '\0';
}

static enum status read_header(struct matrix *m, char *p)
{
    for (char *word; (word = next_word(&p)) != NULL;) {
        if (strcmp(word, "CPU") == 0 || strcmp(word, "NUMA") == 0) {
            break;
        }
        if (m->n == MAX_NODES || strlen(word) >= sizeof m->node[0].name || !topo_name_ok(word)) {
            return bad(m, "a column that cannot be used,", word);
        }
        m->node[m->n].gpu = is_gpu(word);
        strcpy(m->node[m->n].name, word);
        m->n++;
    }
    return m->n > 0 ? ST_OK : bad(m, "no column of a GPU in the header", "");
}

static enum status read_cell(struct matrix *m, int row, int col, const char *word)
{
    static const char *const names[] = {"PIX", "PXB", "PHB", "NODE", "SYS", "X"};
    int64_t lanes;

    if (row != col && strncmp(word, "NV", 2) == 0 && text_to_i64(word + 2, &lanes) && lanes >= 1 &&
        lanes <= 64) {
        m->lanes[row][col] = (int)lanes;
        m->level[row][col] = HIDDEN;
        return ST_OK;
    }
    for (int i = 0; i < 6; i++) {
        if (strcmp(word, names[i]) == 0) {
            m->level[row][col] = (enum level)i;
            return (i == SELF) == (row == col) ? ST_OK
                                               : bad(m,
                                                     "X and only X is expected on the "
                                                     "diagonal, not",
                                                     word);
        }
    }
    return bad(m, "a cell is one of X NV# PIX PXB PHB NODE SYS, not", word);
}

static enum status read_row(struct matrix *m, const char *name, char *p)
{
    int row = m->n_rows;
    char *word;

    if (row >= m->n || strcmp(name, m->node[row].name) != 0) {
        return bad(m, "the rows and columns differ at", name);
    }
    m->node[row].line = m->line;
    for (int col = 0; col < m->n; col++) {
        word = next_word(&p);
        if (word == NULL) {
            return bad(m, "the row is too short:", name);
        }
        TRY(read_cell(m, row, col, word));
    }
    word = next_word(&p);
    (void)snprintf(m->node[row].affinity, sizeof m->node[row].affinity, "%s",
                   word != NULL ? word : "");
    m->n_rows++;
    return ST_OK;
}

static enum status read_matrix(struct matrix *m, char *text, size_t n)
{
    for (char *p = text, *end; p < text + n; p = end + 1) {
        char *rest = p, *word;
        end = memchr(p, '\n', (size_t)(text + n - p));
        end = end == NULL ? text + n : end;
        *end = '\0';
        m->line++;
        strip_escapes(p);
        if (m->n == 0) {
            char *mark = strstr(p, "GPU0");
            if (mark != NULL) {
                TRY(read_header(m, p));
            }
            continue;
        }
        word = next_word(&rest);
        if (word == NULL || strncmp(word, "Legend", 6) == 0) {
            if (m->n_rows > 0) {
                break;
            }
            continue;
        }
        TRY(read_row(m, word, rest));
    }
    if (m->n == 0) {
        m->line = m->line > 0 ? m->line : 1; /* line 1 of an empty text */
        return bad(m, "no header with the column", "GPU0");
    }
    if (m->n_rows < m->n) {
        return bad(m, "the matrix ends before the row of", m->node[m->n_rows].name);
    }
    for (int i = 0; i < m->n; i++) {
        for (int j = 0; j < i; j++) {
            if (m->level[i][j] != m->level[j][i] || m->lanes[i][j] != m->lanes[j][i]) {
                m->line = m->node[i].line;
                return bad(m, "the matrix is not symmetric at the row of", m->node[i].name);
            }
        }
    }
    return ST_OK;
}

static enum level level_of(const struct matrix *m, int i, int j)
{
    if (m->level[i][j] != HIDDEN) {
        return m->level[i][j];
    }
    return strcmp(m->node[i].affinity, m->node[j].affinity) == 0 ? PHB : SYS;
}

/*
 * One level of the hierarchy: nodes whose tops are within `level` of each other get a common
 * switch, unless they have one already. top[i] is the vertex that stands for node i so far.
 */
static enum status add_level(const struct matrix *m, struct topo *t, enum level level, int *top)
{
    static const char *const names[] = {"plx", "uplink", "root", "numa", "host"};
    int made = 0;

    for (int i = 0; i < m->n; i++) {
        int joined = -1, before = top[i];
        for (int j = i + 1; j < m->n; j++) {
            if (level_of(m, i, j) > level || top[j] == before) {
                continue;
            }
            if (joined < 0) {
                char name[32];
                struct topo_link up = {.from = before,
                                       .bytes_per_s = 15750000000,
                                       .effective_bytes_per_s = 12000000000,
                                       .latency_ns = 1000,
                                       .lanes = 16,
                                       .kind = (char *)"pcie"};
                (void)snprintf(name, sizeof name, "%s%d", names[level], made++);
                TRY(topo_add_vertex(t, name, TOPO_SWITCH, &joined));
                up.to = joined;
                TRY(topo_add_both(t, &up));
                for (int k = 0; k < m->n; k++) {
                    top[k] = top[k] == before ? joined : top[k];
                }
            }
            if (top[j] != joined) {
                struct topo_link up = {.from = top[j],
                                       .to = joined,
                                       .bytes_per_s = 15750000000,
                                       .effective_bytes_per_s = 12000000000,
                                       .latency_ns = 1000,
                                       .lanes = 16,
                                       .kind = (char *)"pcie"};
                int old = top[j];
                TRY(topo_add_both(t, &up));
                for (int k = 0; k < m->n; k++) {
                    top[k] = top[k] == old ? joined : top[k];
                }
            }
        }
    }
    return ST_OK;
}

/* Lanes that every pair of GPUs has, or 0 if they differ. */
static int equal_lanes(const struct matrix *m, int *n_gpus)
{
    int lanes = -1;

    *n_gpus = 0;
    for (int i = 0; i < m->n; i++) {
        *n_gpus += m->node[i].gpu;
        for (int j = 0; j < i; j++) {
            if (m->node[i].gpu && m->node[j].gpu) {
                lanes = lanes == -1 || lanes == m->lanes[i][j] ? m->lanes[i][j] : 0;
            }
        }
    }
    return lanes > 0 ? lanes : 0;
}

static enum status add_nvlinks(const struct matrix *m, struct topo *t)
{
    int n_gpus, lanes = equal_lanes(m, &n_gpus), hub = -1;
    bool star = lanes * (n_gpus - 1) > MOST_LANES;

    if (star) {
        TRY(topo_add_vertex(t, "nvswitch", TOPO_SWITCH, &hub));
    }
    for (int i = 0; i < m->n; i++) {
        for (int j = star ? i : 0; j <= (star ? i : i - 1); j++) {
            struct topo_link l = {
                .from = i, .to = star ? hub : j, .latency_ns = 1000, .kind = (char *)"nvlink"};
            l.lanes = star ? lanes : m->lanes[i][j];
            l.bytes_per_s = (int64_t)l.lanes * LANE * 1000000000;
            l.effective_bytes_per_s = l.bytes_per_s / 10 * 8;
            if (l.lanes > 0 && m->node[i].gpu) {
                TRY(topo_add_both(t, &l));
            }
        }
    }
    return ST_OK;
}

static enum status build(const struct matrix *m, struct topo *t)
{
    int top[MAX_NODES];

    for (int i = 0; i < m->n; i++) {
        char name[40];
        (void)snprintf(name, sizeof name, "gpu%s", m->node[i].name + 3);
        TRY(topo_add_vertex(t, m->node[i].gpu ? name : m->node[i].name,
                            m->node[i].gpu ? TOPO_GPU : TOPO_NIC, &top[i]));
    }
    TRY(add_nvlinks(m, t));
    for (int level = PIX; level <= SYS; level++) {
        TRY(add_level(m, t, (enum level)level, top));
    }
    return topo_check(t, m->path, 0);
}

enum status topo_import_smi(const char *path, char *text, size_t n, struct topo **out)
{
    struct matrix *m = mem_alloc(1, sizeof *m);
    struct topo *t = NULL;
    enum status st = ST_NOMEM;

    if (m != NULL) {
        m->path = path;
        st = read_matrix(m, text, n);
    }
    if (st == ST_OK) {
        st = topo_create("imported", "from nvidia-smi topo -m; rates are assumed", &t);
    }
    if (st == ST_OK) {
        st = build(m, t);
    }
    mem_free(m);
    if (st != ST_OK) {
        topo_destroy(t);
        return st;
    }
    *out = t;
    return ST_OK;
}

enum status topo_import_any(const char *path, struct topo **out)
{
    char *text;
    size_t n;
    enum status st;

    TRY(topo_slurp(path, &text, &n));
    if (strstr(text, "hwloc2.dtd") != NULL || strstr(text, "<topology version") != NULL) {
        st = topo_import_hwloc(path, text, n, out);
    } else if (text[strspn(text, " \t\r\n")] == '<') {
        st = topo_import_nccl(path, text, n, out);
    } else if (strstr(text, "GPU0") != NULL && strstr(text, "topology ") == NULL) {
        st = topo_import_smi(path, text, n, out);
    } else {
        st = topo_parse(path, text, n, out);
    }
    mem_free(text);
    return st;
}
