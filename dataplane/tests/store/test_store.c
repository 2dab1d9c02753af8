// SPDX-License-Identifier: Apache-2.0
// What a store keeps, and what it refuses.
#include "unit.h"

#include "bed.h"

#include <errno.h>
#include <string.h>

static void started(struct bed *b)
{
    bed_init(b);
    assert_true(bed_start(b));
}

static void r365_an_empty_disk_is_a_new_member_s(void **state)
{
    (void)state;
    struct bed b;
    started(&b);
    assert_memory_equal(b.store.ids.member, "the member      ", 16);
    assert_int_equal(b.found.hard_state.term, 0);
    assert_int_equal(b.found.snapshot.last_index, 0);
    assert_int_equal(b.found.snapshot.config.count, 1);
    assert_int_equal(b.found.snapshot.config.member[0].id, 7);
    bed_expect(&b, 1, 0, 0);
    memcpy(b.config.ids.member, "another member  ", 16); // drawn again at every start, and not used
    b.config.first.count = 0;
    assert_true(bed_start(&b));
    assert_memory_equal(b.store.ids.member, "the member      ", 16);
    assert_int_equal(b.found.snapshot.config.count, 1);
    bed_free(&b);
}

static void r365_a_foreign_disk_is_refused_by_name(void **state)
{
    (void)state;
    struct bed b;
    started(&b);
    b.config.ids.cluster[3] ^= 1;
    assert_false(bed_start(&b));
    assert_int_equal(b.store.why.trouble, BT_STORE_CLUSTER);
    assert_non_null(strstr(b.text, "another cluster"));
    b.config.ids.cluster[3] ^= 1;
    memcpy(b.config.member_expected, "the member which", 16);
    assert_false(bed_start(&b));
    assert_int_equal(b.store.why.trouble, BT_STORE_MEMBER);
    assert_non_null(strstr(b.text, "another member"));
    memcpy(b.config.member_expected, "the member      ", 16);
    assert_true(bed_start(&b));
    bed_free(&b);
}

static void r365_files_of_two_members_are_refused(void **state)
{
    (void)state;
    struct bed a, b;
    started(&a);
    assert_true(bed_append(&a, 1, 3, 1));
    bed_commit(&a);
    bed_copy(&b, &a);
    ram_free(&b.ram);
    memcpy(b.config.ids.member, "somebody else   ", 16);
    assert_true(bed_start(&b));
    assert_true(bed_append(&b, 1, 3, 1));
    bed_commit(&b);
    assert_true(bed_append(&b, 4, 5, 1));
    bed_commit(&b);
    assert_true(bed_start(&b)); // its second segment names its first
    struct ram_file *old = &a.ram.file[0];
    assert_int_equal(old->id.number, 1);
    assert_true(ram_put(&b.ram, old->id, old->bytes, old->size));
    assert_false(bed_start(&b));
    assert_int_equal(b.store.why.trouble, BT_STORE_MEMBER);
    bed_free(&a);
    bed_free(&b);
}

static void r347_what_was_committed_is_there(void **state)
{
    (void)state;
    struct bed b;
    started(&b);
    assert_true(bed_vote(&b, 3, 2));
    assert_true(bed_append(&b, 1, 200, 3)); // several batches and segments
    bed_commit(&b);
    for (int again = 0; again < 3; again++) {
        assert_true(bed_start(&b));
        assert_int_equal(b.found.hard_state.term, 3);
        assert_int_equal(b.found.hard_state.vote, 2);
        bed_expect(&b, 1, 200, 3);
    }
    bed_free(&b);
}

static void r347_group_commit_syncs_once(void **state)
{
    (void)state;
    struct bed b;
    started(&b);
    uint64_t syncs = b.ram.syncs;
    assert_true(bed_append(&b, 1, 40, 1));
    assert_int_equal(b.ram.syncs, syncs);
    bed_commit(&b);
    assert_int_equal(b.ram.syncs, syncs + 1);
    assert_int_equal(b.store.counter[BT_STORE_SYNCS], b.ram.syncs);
    bed_commit(&b); // nothing to do
    assert_int_equal(b.ram.syncs, syncs + 1);
    bed_free(&b);
}

static void r346_term_and_vote_outlive_their_segment(void **state)
{
    (void)state;
    struct bed b;
    started(&b);
    assert_true(bed_vote(&b, 9, 4));
    assert_true(bed_append(&b, 1, 50, 9));
    assert_true(bed_snapshot(&b, 50, 9, 10));
    assert_true(bed_compact(&b, 50));
    bed_commit(&b);
    assert_int_equal(b.store.chain_n, 1); // the segment with the vote is gone
    assert_true(bed_start(&b));
    assert_int_equal(b.found.hard_state.term, 9);
    assert_int_equal(b.found.hard_state.vote, 4);
    bed_free(&b);
}

static void r348_truncation_and_new_entries(void **state)
{
    (void)state;
    struct bed b;
    started(&b);
    assert_true(bed_append(&b, 1, 120, 1));
    bed_commit(&b);
    assert_true(bed_truncate(&b, 11));
    bed_commit(&b);
    assert_true(bed_start(&b));
    bed_expect(&b, 1, 10, 1);
    assert_true(bed_truncate(&b, 1));
    assert_true(bed_append(&b, 1, 30, 2));
    bed_commit(&b);
    assert_true(bed_start(&b));
    bed_expect(&b, 1, 30, 2);
    bed_free(&b);
}

static void refused(bool (*wrong)(struct bed *), const char *word)
{
    struct bed b;
    started(&b);
    assert_true(bed_vote(&b, 5, 2));
    assert_true(bed_append(&b, 1, 9, 5));
    assert_true(bed_snapshot(&b, 4, 5, 3));
    bed_commit(&b);
    assert_false(wrong(&b));
    uint64_t generation;
    assert_int_equal(bt_store_commit(&b.store, &generation), BT_STORE_FAILED);
    assert_int_equal(b.store.why.trouble, BT_STORE_REFUSED);
    bt_store_error_text(&b.store.why, b.text, sizeof b.text);
    assert_non_null(strstr(b.text, word));
    assert_false(bed_append(&b, 10, 10, 5)); // and for good
    assert_true(bed_start(&b));
    bed_expect(&b, 1, 9, 5);
    bed_free(&b);
}

static bool entry_behind_a_gap(struct bed *b)
{
    return bed_append(b, 11, 11, 5);
}

static bool entry_again(struct bed *b)
{
    return bed_append(b, 9, 9, 5);
}

static bool truncation_behind_the_end(struct bed *b)
{
    return bed_truncate(b, 11);
}

static bool falling_term(struct bed *b)
{
    return bed_vote(b, 4, 0);
}

static bool second_vote(struct bed *b)
{
    return bed_vote(b, 5, 3);
}

static bool vote_taken_back(struct bed *b)
{
    return bed_vote(b, 5, 0);
}

static bool old_snapshot(struct bed *b)
{
    return bed_snapshot(b, 3, 5, 1);
}

static bool long_snapshot(struct bed *b)
{
    return bed_snapshot(b, 5, 5, (1 << 20) + 1);
}

static bool compaction_beyond_the_snapshot(struct bed *b)
{
    return bed_compact(b, 5);
}

static bool generation_left_out(struct bed *b)
{
    b->generation++;
    return bed_append(b, 10, 10, 5);
}

static bool long_entry(struct bed *b)
{
    static const uint8_t body[5000];
    struct bt_entry e = {.index = 10, .term = 5, .body = body, .length = sizeof body};
    return bed_take(b, (struct bt_store_op){.kind = BT_STORE_APPEND, .append = {.entry = &e, .count = 1}});
}

static bool unknown_kind(struct bed *b)
{
    struct bt_entry e = {.index = 10, .term = 5, .kind = BT_ENTRY_KINDS};
    return bed_take(b, (struct bt_store_op){.kind = BT_STORE_APPEND, .append = {.entry = &e, .count = 1}});
}

static void r374_a_contradiction_is_refused(void **state)
{
    (void)state;
    refused(entry_behind_a_gap, "does not follow");
    refused(entry_again, "does not follow");
    refused(truncation_behind_the_end, "truncation");
    refused(falling_term, "term");
    refused(second_vote, "vote");
    refused(vote_taken_back, "vote");
    refused(old_snapshot, "snapshot");
    refused(long_snapshot, "snapshot");
    refused(compaction_beyond_the_snapshot, "compaction");
    refused(generation_left_out, "generation");
    refused(long_entry, "longer than a batch");
    refused(unknown_kind, "kind");
}

static void r349_snapshot_and_compaction(void **state)
{
    (void)state;
    struct bed b;
    started(&b);
    assert_true(bed_append(&b, 1, 100, 2));
    assert_true(bed_snapshot(&b, 80, 2, 20000)); // many blocks and writes
    bed_commit(&b);
    assert_true(bed_start(&b));
    bed_expect(&b, 1, 100, 2); // until it is compacted
    assert_int_equal(b.found.snapshot.last_index, 80);
    assert_int_equal(b.found.snapshot.length, 20000);
    assert_int_equal(b.found.snapshot.config.count, 2);
    assert_int_equal(b.found.snapshot.bytes[19999], 's');
    assert_true(bed_compact(&b, 80));
    assert_true(bed_append(&b, 101, 110, 2));
    bed_commit(&b);
    assert_true(bed_start(&b));
    bed_expect(&b, 81, 110, 2);
    assert_true(bed_snapshot(&b, 110, 2, 0));
    assert_true(bed_compact(&b, 110));
    bed_commit(&b);
    assert_true(bed_start(&b));
    bed_expect(&b, 111, 110, 2);
    assert_int_equal(b.found.snapshot.last_index, 110);
    assert_true(bed_append(&b, 111, 111, 2));
    bed_commit(&b);
    assert_int_equal(b.ram.files, 2); // one segment, one snapshot
    bed_free(&b);
}

static void r349_a_snapshot_beyond_the_log_replaces_it(void **state)
{
    (void)state;
    struct bed b;
    started(&b);
    assert_true(bed_append(&b, 1, 10, 1));
    assert_true(bed_snapshot(&b, 25, 3, 5));
    assert_true(bed_append(&b, 26, 27, 3));
    bed_commit(&b);
    assert_true(bed_start(&b));
    bed_expect(&b, 26, 27, 3);
    assert_true(bed_truncate(&b, 26));
    assert_true(bed_append(&b, 26, 30, 4));
    bed_commit(&b);
    assert_true(bed_start(&b));
    bed_expect(&b, 26, 30, 4);
    bed_free(&b);
}

// a newest segment that is lost takes its one batch along, and nothing older comes up in its place.
static void r370_the_head_before_is_kept_for_one_batch(void **state)
{
    (void)state;
    struct bed b, lost;
    started(&b);
    assert_true(bed_append(&b, 1, 400, 2)); // two segments
    bed_commit(&b);
    assert_true(b.store.chain_n >= 2);
    assert_true(bed_snapshot(&b, 400, 2, 10));
    assert_true(bed_compact(&b, 400));
    bed_commit(&b);
    assert_int_equal(b.store.chain_n, 1);
    bed_copy(&lost, &b);
    ram_newest(&lost.ram, BT_DISK_SEGMENT)->size = 0;
    assert_true(bed_start(&lost));
    bed_expect(&lost, 1, 400, 2);
    assert_int_equal(lost.found.snapshot.last_index, 400);
    bed_free(&lost);
    assert_true(bed_append(&b, 401, 401, 2));
    bed_commit(&b);
    assert_int_equal(b.ram.files, 2);
    for (int again = 0; again < 100; again++) { // and starts alone do not fill the disk
        assert_true(bed_start(&b));
        bed_expect(&b, 401, 401, 2);
        assert_true(b.ram.files <= 4);
    }
    bed_free(&b);
}

// A log that a snapshot contradicts (openraft#559): the entries were never committed.
static void r349_a_log_that_the_snapshot_contradicts_is_dropped(void **state)
{
    (void)state;
    struct bed b;
    started(&b);
    assert_true(bed_append(&b, 1, 20, 1));
    assert_true(bed_snapshot(&b, 10, 2, 5)); // entry 10 has term 1
    bed_commit(&b);
    assert_true(bed_start(&b));
    bed_expect(&b, 11, 10, 1);
    assert_true(bed_append(&b, 11, 12, 2));
    bed_commit(&b);
    assert_true(bed_start(&b));
    bed_expect(&b, 11, 12, 2);
    bed_free(&b);
}

static void failing_disk(int write_code, int sync_code)
{
    struct bed b;
    uint64_t generation;
    started(&b);
    assert_true(bed_append(&b, 1, 5, 1));
    bed_commit(&b);
    b.ram.write_code = write_code;
    b.ram.sync_code = sync_code;
    assert_true(bed_append(&b, 6, 9, 1));
    assert_int_equal(bt_store_commit(&b.store, &generation), BT_STORE_FAILED);
    assert_int_equal(generation, 5);
    assert_int_equal(b.store.why.code, write_code != 0 ? write_code : sync_code);
    b.ram.write_code = b.ram.sync_code = 0;
    assert_false(bed_append(&b, 10, 10, 1));
    assert_int_equal(bt_store_commit(&b.store, &generation), BT_STORE_FAILED); // a later sync proves nothing
    assert_int_equal(generation, 5);
    assert_true(bed_start(&b));
    assert_true(b.found.count >= 5);
    bed_free(&b);
}

// More than a batch at once: the disk fails while entries are still being taken, and no more are.
static void r372_entries_are_refused_from_the_moment_the_disk_fails(void **state)
{
    (void)state;
    struct bed b;
    uint64_t generation;
    started(&b);
    assert_true(bed_append(&b, 1, 5, 1));
    bed_commit(&b);
    b.ram.write_code = EIO;
    assert_false(bed_append(&b, 6, 400, 1));
    b.ram.write_code = 0;
    assert_int_equal(b.store.why.trouble, BT_STORE_DISK);
    assert_int_equal(b.store.why.code, EIO);
    assert_false(bed_append(&b, 6, 6, 1));
    assert_false(bed_vote(&b, 2, 1));
    assert_int_equal(bt_store_commit(&b.store, &generation), BT_STORE_FAILED);
    assert_true(bed_start(&b));
    bed_expect(&b, 1, 5, 1);
    bed_free(&b);
}

static void r372_a_disk_that_fails_stops_the_member(void **state)
{
    (void)state;
    failing_disk(ENOSPC, 0);
    failing_disk(EIO, 0);
    failing_disk(0, EIO);
}

static void r373_the_last_batch_is_written_once_more(void **state)
{
    (void)state;
    struct bed b;
    started(&b);
    assert_true(bed_append(&b, 1, 5, 1));
    bed_commit(&b);
    assert_true(bed_append(&b, 6, 9, 1));
    bed_commit(&b);
    assert_true(bed_start(&b));
    struct ram_file *newest = ram_newest(&b.ram, BT_DISK_SEGMENT);
    assert_int_equal(newest->id.number, 2);
    assert_int_equal(b.store.counter[BT_STORE_COPIED], 4 * bt_record_bytes(9));
    assert_int_equal(b.store.chain_n, 2);
    assert_true(bed_start(&b)); // that segment is its copy and nothing else: it is replaced, and the chain stays short
    assert_int_equal(b.store.chain_n, 2);
    bed_expect(&b, 1, 9, 1);
    bed_free(&b);
}

static void r375_volatile_begins_anew(void **state)
{
    (void)state;
    struct bed b;
    bed_init(&b);
    b.config.policy = BT_STORE_VOLATILE;
    assert_true(bed_start(&b));
    assert_true(bed_vote(&b, 3, 1));
    assert_true(bed_append(&b, 1, 50, 3));
    bed_commit(&b);
    assert_int_equal(b.ram.syncs, 0);
    memcpy(b.config.ids.member, "a second member ", 16);
    assert_true(bed_start(&b));
    assert_memory_equal(b.store.ids.member, "a second member ", 16);
    assert_int_equal(b.found.hard_state.term, 0);
    bed_expect(&b, 1, 0, 0);
    assert_int_equal(b.ram.files, 1);
    memcpy(b.config.ids.member, "a third member  ", 16);
    b.config.policy = BT_STORE_ALWAYS; // nothing that was not synced is believed
    assert_true(bed_start(&b));
    assert_memory_equal(b.store.ids.member, "a third member  ", 16);
    b.config.policy = BT_STORE_VOLATILE; // and nothing that was is thrown away
    assert_false(bed_start(&b));
    assert_int_equal(b.store.why.trouble, BT_STORE_POLICY);
    bed_free(&b);
}

static void r376_bounds(void **state)
{
    (void)state;
    struct bed b;
    struct bt_mem mem;
    bed_init(&b);
    const uint32_t good = b.config.batch_bytes;
    for (unsigned i = 0; i < 4; i++) {
        struct bt_store_config c = b.config;
        c.batch_bytes = i == 0 ? BT_STORE_BATCH_LEAST - 1 : i == 1 ? (1u << 26) + 1 : good;
        c.segment_bytes = i == 2 ? 2 * good - 1 : c.segment_bytes;
        c.files_max = i == 3 ? 7 : c.files_max;
        bt_mem_init(&mem, NULL, 0);
        assert_false(bt_store_init(&b.store, &c, &mem));
    }
    started(&b);
    assert_true(bed_append(&b, 1, 60, 1));
    bed_commit(&b);
    b.config.batch_bytes = BT_STORE_BATCH_LEAST; // less than a batch that is on the disk
    assert_false(bed_start(&b));
    assert_int_equal(b.store.why.trouble, BT_STORE_ROOM);
    bed_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r365_an_empty_disk_is_a_new_member_s),
        cmocka_unit_test(r365_a_foreign_disk_is_refused_by_name),
        cmocka_unit_test(r365_files_of_two_members_are_refused),
        cmocka_unit_test(r347_what_was_committed_is_there),
        cmocka_unit_test(r347_group_commit_syncs_once),
        cmocka_unit_test(r346_term_and_vote_outlive_their_segment),
        cmocka_unit_test(r348_truncation_and_new_entries),
        cmocka_unit_test(r374_a_contradiction_is_refused),
        cmocka_unit_test(r349_snapshot_and_compaction),
        cmocka_unit_test(r349_a_snapshot_beyond_the_log_replaces_it),
        cmocka_unit_test(r349_a_log_that_the_snapshot_contradicts_is_dropped),
        cmocka_unit_test(r370_the_head_before_is_kept_for_one_batch),
        cmocka_unit_test(r372_a_disk_that_fails_stops_the_member),
        cmocka_unit_test(r372_entries_are_refused_from_the_moment_the_disk_fails),
        cmocka_unit_test(r373_the_last_batch_is_written_once_more),
        cmocka_unit_test(r375_volatile_begins_anew),
        cmocka_unit_test(r376_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
