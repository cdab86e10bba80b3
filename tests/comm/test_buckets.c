#include "world.h"

Test(buckets, are_cut_by_size_layer_or_not_at_all)
{
    struct config_comm cfg = world_config("ring");
    size_t cuts[] = {10, 10, 300, 340, 1000, 1001};
    struct comm_bucket b[6];

    cfg.first_bucket_bytes = 40;
    cfg.bucket_bytes = 1200;
    cr_assert_eq(comm_make_buckets(&cfg, cuts, 6, b), 4);
    cr_assert(b[0].offset == 0 && b[0].n == 10);
    cr_assert(b[1].offset == 10 && b[1].n == 330);
    cr_assert(b[2].offset == 340 && b[2].n == 660);
    cr_assert(b[3].offset == 1000 && b[3].n == 1);
    cfg.buckets = (char *)"layer";
    cr_assert_eq(comm_make_buckets(&cfg, cuts, 6, b), 5); /* a layer without parameters has none */
    cr_assert(b[1].offset == 10 && b[1].n == 290);
    cfg.buckets = (char *)"one";
    cr_assert_eq(comm_make_buckets(&cfg, cuts, 6, b), 1);
    cr_assert(b[0].offset == 0 && b[0].n == 1001);
    cr_assert_eq(comm_make_buckets(&cfg, cuts, 0, b), 0);
}
