// SPDX-License-Identifier: Apache-2.0
// What a member finds on its disk when it starts, and what becomes of it when that cannot be: it
// says which of the two is wrong, executes nothing, and refuses clients for its disk.
#include "bed.h"
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "replica/sessions.h"
#include "run/command.h"
#include "run/roster.h"
#include "run/state.h"
#include "run/storage.h"

enum { AT = 10 }; // the snapshot's last index

static struct bed b;
static uint8_t bytes[65536];

static bool ready(struct bed *bed, uint16_t id)
{
    return bed_status(bed, id).ready;
}

static bool failed(struct bed *bed, uint16_t id)
{
    return bed_status(bed, id).phase == BT_MEMBER_FAILED;
}

// A bed whose only member is stopped and has no disk.
static void without_a_disk(void)
{
    bed_open(&b, 1, 1);
    bed_stop(&b, 1);
    bed_lose_disk(&b, 1);
}

// A disk of member 1 that holds these operations.
static void leave(struct bt_store_op *op, size_t n)
{
    char folder[160], why[300] = "";
    struct bt_recovery nothing;
    struct bt_storage_config c = {.folder = folder, .id = 1, .policy = BT_STORE_ALWAYS};
    c.first = (struct bt_group_config){.count = 1, .member = {{1, BT_GROUP_VOTER}}};
    memcpy(c.cluster, b.document.cluster, 16);
    snprintf(folder, sizeof folder, "%s/m1", b.folder);
    struct bt_storage *s = bt_storage_open(&c, &nothing, why, sizeof why);
    assert_string_equal(why, "");
    assert_true(bt_storage_start(s));
    for (size_t i = 0; i < n; i++) {
        op[i].generation = i + 1;
        assert_true(bt_storage_give(s, &op[i]));
    }
    bt_storage_close(s);
}

// A state as a member writes it, after entry AT: of member 1, no sessions, and the service's sum and count.
static uint64_t state_of(uint64_t sum)
{
    static struct bt_roster r;
    static struct bt_sessions none;
    struct bt_group_config c = {.count = 1, .member = {{1, BT_GROUP_VOTER}}};
    memset(&r, 0, sizeof r);
    bt_roster_config(&r, 1, &c);
    size_t n = bt_roster_write(&r, bytes + BT_STATE_HEAD, sizeof bytes - BT_STATE_HEAD), at = BT_STATE_HEAD + n;
    size_t k = bt_sessions_write(&none, bytes + at, sizeof bytes - at);
    assert_true(n != 0 && k != 0);
    bt_put32(bytes, BT_STATE_MAGIC);
    bt_put32(bytes + 4, BT_STATE_VERSION);
    memcpy(bytes + 8, b.document.cluster, 16);
    bt_put64(bytes + 24, AT);
    bt_put32(bytes + 32, (uint32_t)n);
    bt_put32(bytes + 36, (uint32_t)k);
    bt_put64(bytes + at + k, sum);
    bt_put64(bytes + at + k + 8, 3);
    return at + k + 16;
}

static void leave_snapshot(uint64_t n)
{
    struct bt_snapshot s = {.last_index = AT, .last_term = 1, .bytes = bytes, .length = n};
    s.config = (struct bt_group_config){.count = 1, .member = {{1, BT_GROUP_VOTER}}};
    leave((struct bt_store_op[]){{.kind = BT_STORE_HARD_STATE, .hard_state = {.term = 1}},
                                 {.kind = BT_STORE_SNAPSHOT, .snapshot = s}},
          2);
}

// Member 1 has failed for this reason, has said so once, and clients hear that it is its disk.
static void has_failed(const char *reason, const char *message)
{
    struct bt_member_status s = bed_status(&b, 1);
    assert_string_equal(s.reason, reason);
    assert_int_equal(s.phase, BT_MEMBER_FAILED);
    assert_string_equal(s.message, message);
    assert_true(!s.ready && s.core.term == 0 && s.core.applied == 0);
    assert_int_equal(b.service[1].executed, 0);
    assert_true(b.said_bad && b.sayings == 1);
    assert_string_equal(b.said, message);
    assert_false(bed_ask(&b, &(struct bed_ask){.to = 1, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1}));
    assert_true(b.reply_type == BT_DROP && b.reply[5] == BT_DROP_DISK);
    assert_int_equal(b.service[1].executed, 0);
}

static void r347_a_snapshot_is_taken_up(void **state)
{
    (void)state;
    without_a_disk();
    uint64_t n = state_of(70);
    leave_snapshot(n);
    bed_start(&b, 1);
    assert_true(b.service[1].sum == 70 && b.service[1].executed == 3);
    struct bt_member_status s = bed_status(&b, 1);
    assert_string_equal(s.disk, "Healthy");
    assert_true(s.snapshot_bytes == n && s.core.snapshot == AT && s.core.applied == AT);
    assert_true(s.peers == 1 && s.peer[0].id == 1 && s.peer[0].voter && !s.peer[0].registered);
    bed_until(&b, ready, 1);
    assert_true(bed_ask(&b, &(struct bed_ask){.to = 1, .policy = BT_POLICY_REPLICATED_WRITE, .add = 5}));
    assert_int_equal(bed_sum(&b, 0), 75);
    bed_close(&b);
}

static void r383_a_snapshot_of_another_cluster_is_not_taken_up(void **state)
{
    (void)state;
    without_a_disk();
    uint64_t n = state_of(70);
    bytes[8 + 15] ^= 1;
    leave_snapshot(n);
    bed_start(&b, 1);
    has_failed("DiskForeign", "a snapshot of another cluster");
    bed_close(&b);
}

static void r347_a_state_that_is_none_is_not_taken_up(void **state)
{
    static const struct {
        uint8_t at, change;
        uint64_t cut;
    } rows[] = {
        {0, 1, 0},   {3, 1, 0},   {7, 1, 0},  {7, 3, 0},  // its mark, and its version
        {31, 1, 0},  {24, 1, 0},  {32, 1, 0}, {35, 1, 0}, // of another entry; a roster that is longer
        {36, 1, 0},  {39, 1, 0},  {40, 1, 0}, {40, 0, 1}, // sessions that are; a roster that is none; a shorter state
        {40, 0, 16}, {40, 0, 17},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        without_a_disk();
        uint64_t n = state_of(70) - rows[i].cut;
        bytes[rows[i].at] ^= rows[i].change;
        if (rows[i].cut == 17) {
            n = BT_STATE_HEAD - 1;
        }
        leave_snapshot(n);
        bed_start(&b, 1);
        if (rows[i].cut == 16) { // a service that has no state yet: this one takes that
            assert_int_equal(bed_status(&b, 1).phase, BT_MEMBER_RUNNING);
        } else {
            has_failed("State", "the snapshot at 10 cannot be taken up");
        }
        bed_close(&b);
    }
}

static void r347_a_log_that_cannot_be_started_from_is_damage(void **state)
{
    (void)state;
    without_a_disk();
    struct bt_entry e = {.index = 1, .term = 9, .kind = BT_ENTRY_NOOP}; // of a term that was never begun
    leave((struct bt_store_op[]){{.kind = BT_STORE_HARD_STATE, .hard_state = {.term = 8}},
                                 {.kind = BT_STORE_APPEND, .append = {&e, 1}}},
          2);
    bed_start(&b, 1);
    char text[200];
    snprintf(text, sizeof text, "what the disk holds cannot be started from: %s",
             bt_replica_result_name(BT_REPLICA_FOREIGN));
    has_failed("DiskDamaged", text);
    bed_close(&b);
}

static int refuse_all(void *arg, const uint8_t *p, size_t n)
{
    (void)arg;
    (void)p;
    assert_int_equal(n, 0);
    return -1;
}

static void refusing(struct bed *bed, uint16_t id)
{
    bed->calls[id].restore = refuse_all;
}

static void a_service_that_refuses_the_empty_state_takes_no_part(void **state)
{
    (void)state;
    without_a_disk();
    b.adapt = refusing;
    bed_start(&b, 1);
    has_failed("State", "the service refuses the empty state");
    bed_close(&b);
}

static void a_member_for_which_there_is_no_memory_is_none(void **state)
{
    (void)state;
    without_a_disk();
    b.document.snapshot_bytes = 0; // of no bytes there is no room
    assert_false(bed_try(&b, 1));
    bt_files_close(&b.disk[1].files);
    bed_close(&b);
}

/* --- entries of another release --- */

// An entry that this member is to execute and cannot.
static void stops_at(uint8_t kind, const uint8_t *body, uint32_t n, const char *message)
{
    struct bt_entry e[3] = {
        {.index = 1, .term = 1, .kind = BT_ENTRY_NOOP},
        {.index = 2, .term = 1, .kind = kind, .body = body, .length = n},
        {.index = 3, .term = 1, .kind = BT_ENTRY_NOOP},
    };
    leave((struct bt_store_op[]){{.kind = BT_STORE_HARD_STATE, .hard_state = {.term = 1}},
                                 {.kind = BT_STORE_APPEND, .append = {e, 3}}},
          2);
    b.sayings = 0;
    bed_start(&b, 1);
    bed_until(&b, failed, 1);
    struct bt_member_status s = bed_status(&b, 1);
    assert_string_equal(s.reason, "State");
    assert_string_equal(s.message, message);
    assert_true(b.sayings == 1 && b.said_bad);
    assert_string_equal(b.said, message);
    assert_int_equal(b.service[1].executed, 0);
    uint64_t applied = s.core.applied;
    for (int i = 0; i < 50; i++) { // it stays there
        bed_step(&b);
    }
    assert_int_equal(bed_status(&b, 1).core.applied, applied);
    assert_int_equal(b.sayings, 1);
}

static void r384_an_entry_that_is_no_command_stops_a_member(void **state)
{
    (void)state;
    without_a_disk();
    stops_at(BT_ENTRY_COMMAND, (const uint8_t *)"\xff\0\0\0", 4,
             "entry 2 is no command: another version of this program wrote it");
    bed_close(&b);
}

static void r384_an_entry_that_is_no_request_stops_a_member(void **state)
{
    (void)state;
    for (int what = 0; what < 2; what++) { // no command at all, or a read where a write should be
        uint8_t body[BT_GROUP_META + 64] = {0};
        struct bt_group_meta of = {.client = bed_address(BED_CLIENT, 5000), .req_id = 4};
        struct bt_command read = {.kind = BT_COMMAND_READ, .body = (const uint8_t *)"12345678", .n = 8};
        bed_open_hovercraft(&b, 1, false);
        bed_stop(&b, 1);
        bed_lose_disk(&b, 1);
        bt_group_meta_put(body, &of);
        uint32_t n = bt_command_put(body + BT_GROUP_META, 64, &read);
        body[BT_GROUP_META] = what == 0 ? 0xff : body[BT_GROUP_META];
        stops_at(BT_ENTRY_WRITE, body, BT_GROUP_META + n,
                 "entry 2 is no request: another version of this program wrote it");
        bed_close(&b);
    }
}

/* --- a disk that refuses, or is another's --- */

static void says_of_its_disk(const char *disk, const char *reason, const char *message)
{
    b.sayings = 0;
    bed_start(&b, 1);
    has_failed(reason, message);
    assert_string_equal(bed_status(&b, 1).disk, disk);
    bed_stop(&b, 1);
}

static void r372_a_disk_that_refuses_is_named_by_what_is_wrong_with_it(void **state)
{
    (void)state;
    without_a_disk();
    atomic_store(&b.disk[1].fails, ENOSPC);
    says_of_its_disk("Failed", "DiskFull", "storage: the disk failed at segment 1, byte 0: cannot sync, error 28");
    bed_lose_disk(&b, 1);
    atomic_store(&b.disk[1].fails, EIO);
    says_of_its_disk("Failed", "DiskFailed", "storage: the disk failed at segment 1, byte 0: cannot sync, error 5");
    bed_lose_disk(&b, 1);
    leave(NULL, 0);
    b.document.storage = BT_GROUP_VOLATILE;
    says_of_its_disk("Foreign", "DiskForeign",
                     "storage: refused: storage Volatile over a durable log; remove the disk's files, or keep Always");
    b.document.storage = BT_GROUP_ALWAYS;
    b.document.member[0].id = 5;
    says_of_its_disk("Foreign", "DiskForeign",
                     "storage: the disk is that of member 1, and this is member 5; give each member its own disk");
    b.document.member[0].id = 1;
    bed_lose_disk(&b, 1);
    leave(NULL, 0);
    char path[200];
    snprintf(path, sizeof path, "%s/m1/segment-%020d", b.folder, 1);
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_true(fseek(f, 100, SEEK_SET) == 0 && fputc('x', f) == 'x' && fclose(f) == 0);
    says_of_its_disk("Damaged", "DiskDamaged",
                     "storage: damaged at segment 1, byte 0: a block's checksum is wrong; this member must not start: "
                     "remove its disk and add a new member");
    bed_close(&b);
}

// ids rise on a disk, in whatever order a document names its first voters.
static void r385_founders_are_kept_by_their_number(void **state)
{
    (void)state;
    bed_open(&b, 0, 3);
    b.document.n_founders = 3;
    for (unsigned i = 0; i < 3; i++) {
        memcpy(b.document.founder[i], b.document.member[(i + 2) % 3].name, sizeof b.document.founder[i]);
    }
    for (int again = 0; again < 2; again++) {
        for (uint16_t id = 1; id <= 3; id++) {
            bed_start(&b, id);
            struct bt_member_status s = bed_status(&b, id);
            assert_int_equal(s.peers, 3);
            for (unsigned i = 0; i < 3; i++) {
                assert_true(s.peer[i].id == i + 1 && s.peer[i].voter);
                assert_string_equal(s.peer[i].name, b.document.member[i].name);
            }
        }
        bed_until(&b, ready, 1);
        for (uint16_t id = 1; id <= 3; id++) {
            bed_stop(&b, id);
        }
    }
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r347_a_snapshot_is_taken_up),
        cmocka_unit_test(r383_a_snapshot_of_another_cluster_is_not_taken_up),
        cmocka_unit_test(r347_a_state_that_is_none_is_not_taken_up),
        cmocka_unit_test(r347_a_log_that_cannot_be_started_from_is_damage),
        cmocka_unit_test(a_service_that_refuses_the_empty_state_takes_no_part),
        cmocka_unit_test(a_member_for_which_there_is_no_memory_is_none),
        cmocka_unit_test(r384_an_entry_that_is_no_command_stops_a_member),
        cmocka_unit_test(r384_an_entry_that_is_no_request_stops_a_member),
        cmocka_unit_test(r372_a_disk_that_refuses_is_named_by_what_is_wrong_with_it),
        cmocka_unit_test(r385_founders_are_kept_by_their_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
