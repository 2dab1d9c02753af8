// SPDX-License-Identifier: Apache-2.0
// A member comes up from what its disk holds, or not at all; and what its configuration may be.
#include "bed.h"

static struct bt_replica_config usual(void)
{
    return (struct bt_replica_config){.cluster = BED_CLUSTER,
                                      .group = BED_GROUP,
                                      .id = 1,
                                      .pipeline = 4,
                                      .election_ns = 50 * BED_MS,
                                      .heartbeat_ns = 10 * BED_MS,
                                      .log_slots = 256,
                                      .body_bytes = 1 << 20,
                                      .keep_entries = 4,
                                      .message_bytes = 1452,
                                      .snapshot_bytes = 4000};
}

// Whether the usual configuration is one with this change, too.
#define IS(is, change)                                                                                                 \
    do {                                                                                                               \
        struct bt_replica_config c = usual();                                                                          \
        change;                                                                                                        \
        assert_int_equal(bt_replica_bytes(&c) != 0, is);                                                               \
    } while (0)

static void a_configuration_has_its_bounds(void **state)
{
    (void)state;
    IS(true, (void)0);
    IS(false, c.id = 0);
    IS(true, c.id = UINT16_MAX);
    IS(false, c.log_slots = 64);
    IS(true, c.log_slots = 128);
    IS(false, c.log_slots = 192); // no power of two
    IS(true, c.keep_entries = 127);
    IS(false, c.keep_entries = 128); // half of the log
    IS(true, c.body_bytes = 2 * 1452);
    IS(false, c.body_bytes = 2 * 1452 - 1);
    IS(false, c.heartbeat_ns = 0);
    IS(false, c.election_ns = 20 * BED_MS);
    IS(true, c.election_ns = 20 * BED_MS + 1);
    IS(false, c.pipeline = 0);
    IS(true, c.pipeline = 1);
    IS(true, c.pipeline = BT_REPLICA_PIPELINE_MAX);
    IS(false, c.pipeline = BT_REPLICA_PIPELINE_MAX + 1);
    IS(false, c.message_bytes = 511);
    IS(true, c.message_bytes = 512);
    IS(true, c.message_bytes = BT_GROUP_MESSAGE_MAX);
    IS(false, c.message_bytes = BT_GROUP_MESSAGE_MAX + 1);
}

static void a_group_apart_has_its_bounds_too(void **state)
{
    static const struct bt_replica_apart least = {
        .kept_requests = 1, .recent_pairs = 1, .bound = 1, .keep_ns = 1, .recover_ns = 1};
    (void)state;
    IS(true, c.apart = least);
    IS(false, c.apart = least; c.apart.recent_pairs = 0);
    IS(false, c.apart = least; c.apart.bound = 0);
    IS(false, c.apart = least; c.apart.keep_ns = 0);
    IS(false, c.apart = least; c.apart.recover_ns = 0);
    IS(true, c.apart.bound = 0); // a Raft group asks for none of it
}

/* --- what the disk held --- */

enum { SNAPSHOT = 5 };

static struct bt_entry entry(uint64_t index, uint64_t term)
{
    return (struct bt_entry){
        .index = index, .term = term, .kind = BT_ENTRY_COMMAND, .body = (const uint8_t *)"write", .length = 5};
}

// A snapshot after entry 5, of term 2, in term 3; and these entries.
static struct bt_recovery found(const struct bt_entry *entries, uint64_t n)
{
    return (struct bt_recovery){.hard_state = {.term = 3},
                                .snapshot = {.last_index = SNAPSHOT,
                                             .last_term = 2,
                                             .config = bed_voters(3),
                                             .bytes = (const uint8_t *)"state",
                                             .length = 5},
                                .entry = (struct bt_entry *)(uintptr_t)entries,
                                .count = n};
}

static void is_after(struct bed *b, uint64_t last, uint64_t last_term)
{
    struct bt_replica_status s = bed_status(b);
    assert_int_equal(s.last, last);
    assert_int_equal(s.last_term, last_term);
    assert_int_equal(s.first, SNAPSHOT + 1);
    assert_int_equal(s.commit, SNAPSHOT);
    assert_int_equal(s.applied, SNAPSHOT);
    assert_int_equal(s.term, 3);
    assert_int_equal(b->restored, SNAPSHOT);
    assert_int_equal(b->restored_n, 5);
}

static void r347_a_log_goes_on_behind_its_snapshot(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    const struct bt_entry e[] = {entry(6, 2), entry(7, 3)};
    struct bt_recovery f = found(e, 2);
    assert_int_equal(bed_restart(b, &f), BT_REPLICA_OK);
    is_after(b, 7, 3);
    assert_int_equal(b->ops_n, 0); // the disk is as it should be
    f = found(e, 0);
    assert_int_equal(bed_restart(b, &f), BT_REPLICA_OK);
    is_after(b, 5, 2);
    assert_int_equal(b->ops_n, 0);
    bed_close(b);
}

// The snapshot was durable, and the end came before the log was cut.
static void r347_what_the_snapshot_covers_is_taken_off_the_disk(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    const struct bt_entry e[] = {entry(4, 2), entry(5, 2), entry(6, 2)};
    struct bt_recovery f = found(e, 3);
    assert_int_equal(bed_restart(b, &f), BT_REPLICA_OK);
    is_after(b, 6, 2);
    assert_int_equal(b->ops_n, 1);
    assert_int_equal(bed_last_op(b, BT_STORE_COMPACT)->index, SNAPSHOT);
    bed_close(b);
}

static void r347_a_log_that_its_snapshot_contradicts_is_not_this_members(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    const struct bt_entry e[] = {entry(4, 1), entry(5, 1), entry(6, 1), entry(7, 1)};
    struct bt_recovery f = found(e, 4);
    assert_int_equal(bed_restart(b, &f), BT_REPLICA_OK);
    is_after(b, 5, 2);
    assert_int_equal(b->ops_n, 2);
    assert_int_equal(b->op[0].kind, BT_STORE_TRUNCATE);
    assert_int_equal(b->op[0].index, SNAPSHOT + 1);
    assert_int_equal(b->op[1].kind, BT_STORE_COMPACT);
    assert_int_equal(b->op[1].index, SNAPSHOT);
    f = found(e, 2); // nothing stands behind it
    assert_int_equal(bed_restart(b, &f), BT_REPLICA_OK);
    is_after(b, 5, 2);
    assert_int_equal(b->ops_n, 1);
    assert_int_equal(b->op[0].kind, BT_STORE_COMPACT);
    bed_close(b);
}

static void r347_what_no_member_left_behind_is_refused(void **state)
{
    (void)state;
    struct bed *b = bed_open(1, 3);
    const struct bt_entry gap[] = {entry(6, 2), entry(8, 2)}, falls[] = {entry(6, 1)},
                          back[] = {entry(6, 3), entry(7, 2)}, later[] = {entry(6, 4)};
    struct bt_recovery f = found(gap, 2);
    assert_int_equal(bed_restart(b, &f), BT_REPLICA_FOREIGN);
    f = found(falls, 1); // a term below the snapshot's
    assert_int_equal(bed_restart(b, &f), BT_REPLICA_FOREIGN);
    f = found(back, 2);
    assert_int_equal(bed_restart(b, &f), BT_REPLICA_FOREIGN);
    f = found(later, 1); // of a term that this member has not come to
    assert_int_equal(bed_restart(b, &f), BT_REPLICA_FOREIGN);
    f = found(gap, 1);
    f.fenced = "why";
    assert_int_equal(bed_restart(b, &f), BT_REPLICA_FENCED);
    assert_int_equal(b->ops_n, 0);
    bed_close(b);
}

static void r348_a_snapshot_of_the_largest_size_is_taken_up(void **state)
{
    static uint8_t bytes[4001];
    (void)state;
    struct bed *b = bed_open(1, 3);
    struct bt_recovery f = found(NULL, 0);
    f.snapshot.bytes = bytes;
    f.snapshot.length = 4000;
    f.snapshot.config = bed_voters(BT_GROUP_MEMBERS_MAX);
    assert_int_equal(bed_restart(b, &f), BT_REPLICA_OK);
    assert_int_equal(b->restored_n, 4000);
    assert_int_equal(bed_status(b).config->count, BT_GROUP_MEMBERS_MAX);
    f.snapshot.length = 4001;
    assert_int_equal(bed_restart(b, &f), BT_REPLICA_FOREIGN);
    f.snapshot.length = 4000;
    f.snapshot.config.count = BT_GROUP_MEMBERS_MAX + 1;
    assert_int_equal(bed_restart(b, &f), BT_REPLICA_FOREIGN);
    bed_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_configuration_has_its_bounds),
        cmocka_unit_test(a_group_apart_has_its_bounds_too),
        cmocka_unit_test(r347_a_log_goes_on_behind_its_snapshot),
        cmocka_unit_test(r347_what_the_snapshot_covers_is_taken_off_the_disk),
        cmocka_unit_test(r347_a_log_that_its_snapshot_contradicts_is_not_this_members),
        cmocka_unit_test(r347_what_no_member_left_behind_is_refused),
        cmocka_unit_test(r348_a_snapshot_of_the_largest_size_is_taken_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
