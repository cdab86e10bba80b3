#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "comm/chunks.h"

Test(chunks, rules_are_read_found_and_written)
{
    struct chunk_rules r, back;
    char text[CHUNK_RULES_BYTES];

    cr_assert_eq(chunk_rules_read(" 4K:512 ,64k:4K,1M: 128K", &r), ST_OK);
    cr_assert_eq(r.n, 3);
    cr_assert_not(r.tune);
    cr_assert_eq(chunk_rules_find(&r, 0), 512);
    cr_assert_eq(chunk_rules_find(&r, 4096), 512);
    cr_assert_eq(chunk_rules_find(&r, 4097), 4096);
    cr_assert_eq(chunk_rules_find(&r, 1 << 20), 128 << 10);
    cr_assert_eq(chunk_rules_find(&r, SIZE_MAX), 128 << 10, "the last rule holds for all above");
    chunk_rules_write(&r, text);
    cr_assert_str_eq(text, "4K:512, 64K:4K, 1024K:128K");
    cr_assert_eq(chunk_rules_read(text, &back), ST_OK);
    cr_assert_eq(back.n, 3);
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(back.rules[i].up_to_bytes, r.rules[i].up_to_bytes);
        cr_assert_eq(back.rules[i].chunk_bytes, r.rules[i].chunk_bytes);
    }
}

Test(chunks, nothing_and_tune)
{
    struct chunk_rules r = {.n = 7};

    cr_assert_eq(chunk_rules_read(NULL, &r), ST_OK);
    cr_assert(r.n == 0 && !r.tune);
    cr_assert_eq(chunk_rules_read("", &r), ST_OK);
    cr_assert(r.n == 0 && !r.tune);
    cr_assert_eq(chunk_rules_find(&r, 100), 0);
    cr_assert_eq(chunk_rules_read("tune", &r), ST_OK);
    cr_assert(r.n == 0 && r.tune);
}

Test(chunks, the_longest_text_fits)
{
    struct chunk_rules r = {.n = CHUNK_RULES}, back;
    char text[CHUNK_RULES_BYTES];

    for (size_t i = 0; i < CHUNK_RULES; i++) {
        r.rules[i].up_to_bytes = SIZE_MAX / 2 - CHUNK_RULES + i;
        r.rules[i].chunk_bytes = SIZE_MAX / 2 - 1;
    }
    chunk_rules_write(&r, text);
    cr_assert_lt(strlen(text), sizeof text - 1);
    cr_assert_eq(chunk_rules_read(text, &back), ST_OK, "%s", text);
    cr_assert_eq(back.n, CHUNK_RULES);
    cr_assert_eq(back.rules[CHUNK_RULES - 1].up_to_bytes, SIZE_MAX / 2 - 1);
}

Test(chunks, classes_are_powers_of_two)
{
    cr_assert_eq(chunk_class_bytes(0), 4096);
    cr_assert_eq(chunk_class_bytes(4096), 4096);
    cr_assert_eq(chunk_class_bytes(4097), 8192);
    cr_assert_eq(chunk_class_bytes((size_t)1 << 40), (size_t)1 << 40);
}
