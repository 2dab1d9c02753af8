// SPDX-License-Identifier: Apache-2.0
// What a member's disk may hold after a crash: all that was durable, and any beginning of what followed.
#include "unit.h"

#include <string.h>

#include "replica_disk.h"

enum { ENTRIES = 12, BODY = 3000, SEEDS = 200 };

static uint8_t body[BODY];
static const struct bt_group_config three = {.count = 3,
                                             .member = {{1, BT_GROUP_VOTER}, {2, BT_GROUP_VOTER}, {3, BT_GROUP_VOTER}}};

static struct bt_store_op an_append(struct bt_entry *entry)
{
    for (uint64_t i = 0; i < ENTRIES; i++) {
        entry[i] = (struct bt_entry){.index = i + 1, .term = 1, .body = body, .length = BODY};
    }
    return (struct bt_store_op){.kind = BT_STORE_APPEND, .generation = 1, .append = {.entry = entry, .count = ENTRIES}};
}

/* How many entries of one append a member finds whose power went amid its sync. */
static uint64_t entries_after_a_crash(uint64_t seed)
{
    struct bt_rng rng;
    struct bt_entry entry[ENTRIES];
    struct bt_store_op append = an_append(entry);
    struct replica_disk *d = replica_disk_new(
        &three, replica_wal_new(&three, &(struct replica_wal_rules){.seed = seed, .sync_ns = 1000000}));
    bt_rng_seed(&rng, seed);
    assert_non_null(replica_disk_recover(d, 0));
    assert_true(replica_disk_store(d, &append));
    uint64_t done = replica_disk_sync(d, 20000000, 0);
    assert_true(done > 20000000);
    uint64_t at = 20000000 + bt_rng_below(&rng, (uint32_t)(done - 20000000));
    replica_disk_crash(d, at, &rng);
    const struct bt_recovery *found = replica_disk_recover(d, at);
    if (found == NULL) {
        fail_msg("seed %llu: %s", (unsigned long long)seed, replica_disk_why(d));
    }
    uint64_t count = found->count;
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(found->entry[i].index, i + 1);
        assert_true(replica_disk_holds(d, i + 1, 1));
    }
    assert_false(replica_disk_reaches(d, count + 1));
    replica_disk_free(d);
    return count;
}

/* The log writes a batch that is full, amid an append too: then some of its entries are there, and the others never
 * were. */
static void r346_some_entries_of_an_append_may_be_there(void **state)
{
    unsigned none = 0, some = 0;
    (void)state;
    memset(body, 7, sizeof body);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint64_t n = entries_after_a_crash(seed);
        assert_in_range(n, 0, ENTRIES);
        none += n == 0;
        some += n > 0 && n < ENTRIES;
    }
    assert_true(none > 0);
    assert_true(some > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r346_some_entries_of_an_append_may_be_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
