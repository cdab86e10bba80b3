#include "config/config_show.h"

/* FNV-1a, 64 bits. */
static void hash(void *ctx, const char *piece)
{
    uint64_t *h = ctx;

    for (; *piece != '\0'; piece++) {
        *h = (*h ^ (unsigned char)*piece) * 0x100000001b3u;
    }
}

uint64_t config_digest(const struct config *cfg)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < config_table_n(); i++) {
        const struct config_key *k = config_table_at(i);
        if (!(k->flags & KEY_LOCAL)) {
            hash(&h, k->name);
            hash(&h, "=");
            config_show_value(cfg, k, hash, &h);
            hash(&h, "\n");
        }
    }
    return h;
}
