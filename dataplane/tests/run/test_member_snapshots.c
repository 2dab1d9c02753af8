// SPDX-License-Identifier: Apache-2.0
// When a member writes its state down, what it does when that is too large or not possible, and how
// much may wait for a disk.
#include "bed.h"
#include "unit.h"

#include <string.h>

enum { EVERY = 16 };

static struct bed b;
static size_t over; // how much the state is longer than the room for it
static unsigned asked, refusals, begun;

static bool ready(struct bed *bed, uint16_t id)
{
    return bed_status(bed, id).ready;
}

static uint64_t counted(enum bt_member_counter c)
{
    return bt_member_counters(b.member[1])[c];
}

static uint64_t snapshot(void)
{
    return bed_status(&b, 1).core.snapshot;
}

static size_t fill(void *arg, uint8_t *out, size_t room)
{
    (void)arg;
    asked++;
    memset(out, 0, room);
    return room + over;
}

static void with_a_long_state(struct bed *bed, uint16_t id)
{
    bed->calls[id].snapshot = fill;
}

static int begin_it(void *arg)
{
    (void)arg;
    begun++;
    return refusals != 0 ? (refusals--, -1) : 0;
}

static void in_the_background(struct bed *bed, uint16_t id)
{
    bed->calls[id].snapshot = NULL;
    bed->calls[id].snapshot_begin = begin_it;
    bed->calls[id].snapshot_end = fill;
}

// Member 1 alone, with a service of that kind, and a document that says so many bytes and entries.
static void open_alone(void (*adapt)(struct bed *, uint16_t), int64_t room, int64_t every)
{
    bed_open(&b, 0, 1);
    b.document.n_founders = 1;
    memcpy(b.document.founder[0], "m1", 3);
    b.document.snapshot_bytes = room;
    b.document.snapshot_entries = every;
    b.adapt = adapt;
    over = 0;
    asked = refusals = begun = 0;
    bed_start(&b, 1);
    bed_until(&b, ready, 1);
}

static void write_one(void)
{
    assert_true(bed_ask(&b, &(struct bed_ask){.to = 1, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1}));
}

static void settle(void)
{
    for (int ms = 0; ms < 10; ms++) {
        bed_step(&b);
    }
}

static enum bt_replica_result ordered(uint64_t *index)
{
    return bt_member_snapshot(b.member[1], b.now, index);
}

static void r349_a_state_that_fills_the_room_is_taken_and_a_longer_one_is_not(void **state)
{
    uint64_t index;
    (void)state;
    open_alone(with_a_long_state, 65536, 1024);
    over = 1;
    assert_int_equal(ordered(&index), BT_REPLICA_TOO_LONG);
    assert_int_equal(counted(BT_MEMBER_SNAPSHOT_TOO_LARGE), 1);
    assert_int_equal(counted(BT_MEMBER_SNAPSHOTS), 0);
    settle();
    assert_int_equal(snapshot(), 0);
    over = 0;
    assert_int_equal(ordered(&index), BT_REPLICA_OK);
    settle();
    assert_int_equal(snapshot(), index);
    assert_int_equal(bed_status(&b, 1).snapshot_bytes, 65536);
    assert_int_equal(counted(BT_MEMBER_SNAPSHOT_TOO_LARGE), 1);
    assert_int_equal(counted(BT_MEMBER_SNAPSHOTS), 1);
    assert_int_equal(asked, 2);
    bed_close(&b);
}

static void r349_where_there_is_no_room_for_its_own_part_the_service_is_not_asked(void **state)
{
    uint64_t index;
    (void)state;
    open_alone(with_a_long_state, 170, 1024);
    assert_int_equal(ordered(&index), BT_REPLICA_TOO_LONG);
    assert_int_equal(counted(BT_MEMBER_SNAPSHOT_TOO_LARGE), 1);
    assert_int_equal(asked, 0);
    settle();
    assert_int_equal(snapshot(), 0);
    bed_close(&b);
}

static void r395_in_the_background_as_well(void **state)
{
    uint64_t index, again;
    (void)state;
    open_alone(in_the_background, 65536, 1024);
    over = 1;
    assert_int_equal(ordered(&index), BT_REPLICA_OK);
    assert_int_equal(ordered(&again), BT_REPLICA_PENDING);
    settle();
    assert_true(begun == 1 && asked == 1);
    assert_int_equal(counted(BT_MEMBER_SNAPSHOT_TOO_LARGE), 1);
    assert_true(counted(BT_MEMBER_SNAPSHOTS) == 0 && snapshot() == 0);
    over = 0;
    refusals = 1;
    assert_int_equal(ordered(&index), BT_REPLICA_PENDING); // not now
    assert_int_equal(ordered(&index), BT_REPLICA_OK);
    write_one();
    settle();
    assert_true(begun == 3 && asked == 2);
    assert_int_equal(snapshot(), index); // of its beginning
    assert_int_equal(bed_status(&b, 1).core.applied, index + 1);
    assert_int_equal(counted(BT_MEMBER_SNAPSHOT_TOO_LARGE), 1);
    assert_int_equal(counted(BT_MEMBER_SNAPSHOTS), 1);
    bed_close(&b);
}

static void r349_a_state_is_written_down_each_so_many_entries(void **state)
{
    (void)state;
    open_alone(NULL, 65536, EVERY);
    for (uint64_t taken = 0; taken < 3; taken++) {
        while (bed_status(&b, 1).core.applied < (taken + 1) * EVERY - 1) {
            write_one();
            settle();
        }
        assert_int_equal(snapshot(), taken * EVERY);
        write_one();
        settle();
        assert_int_equal(snapshot(), (taken + 1) * EVERY);
        assert_int_equal(counted(BT_MEMBER_SNAPSHOTS), taken + 1);
    }
    bed_close(&b);
}

// Nearly full or not: a service that cannot is asked again when an eighth more was executed.
static void r349_what_was_not_possible_is_tried_again_an_eighth_later(void **state)
{
    (void)state;
    open_alone(in_the_background, 65536, EVERY);
    refusals = 2;
    for (unsigned tries = 0; tries < 3; tries++) {
        uint64_t at = EVERY + tries * (EVERY / 8 + 1);
        while (bed_status(&b, 1).core.applied < at - 1) {
            write_one();
        }
        settle();
        assert_int_equal(begun, tries);
        write_one();
        settle();
        assert_int_equal(begun, tries + 1);
    }
    assert_int_equal(snapshot(), EVERY + 2 * (EVERY / 8 + 1));
    bed_close(&b);
}

// nobody waits for a disk that stands still, and nothing is lost: what it has no room for is refused.
static void r348_as_many_operations_wait_for_a_disk_as_there_is_room_for(void **state)
{
    (void)state;
    open_alone(NULL, 65536, 1024);
    b.document.in_flight = 2 * BT_REPLICA_STORE_MAX;
    bt_member_reconfigure(b.member[1], &b.document, &b.keys);
    uint64_t last = bed_status(&b, 1).core.last;
    atomic_store(&b.disk[1].stalled, true);
    for (uint32_t i = 1; i <= BT_REPLICA_STORE_MAX; i++) {
        bed_send(&b, &(struct bed_ask){.to = 1, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1});
        assert_true(bed_status(&b, 1).in_flight == i && bed_status(&b, 1).core.storing == i);
    }
    assert_false(bed_ask(&b, &(struct bed_ask){.to = 1, .policy = BT_POLICY_REPLICATED_WRITE, .add = 1}));
    assert_true(b.reply_type == BT_DROP && b.reply[5] == BT_DROP_BUSY);
    assert_int_equal(bed_status(&b, 1).core.last, last + BT_REPLICA_STORE_MAX);
    assert_int_equal(b.service[1].executed, 0);
    atomic_store(&b.disk[1].stalled, false);
    while (b.service[1].executed < BT_REPLICA_STORE_MAX) {
        bed_step(&b);
    }
    write_one();
    assert_int_equal(bed_sum(&b, 0), BT_REPLICA_STORE_MAX + 1);
    assert_int_equal(bed_status(&b, 1).in_flight, 0);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r349_a_state_that_fills_the_room_is_taken_and_a_longer_one_is_not),
        cmocka_unit_test(r349_where_there_is_no_room_for_its_own_part_the_service_is_not_asked),
        cmocka_unit_test(r395_in_the_background_as_well),
        cmocka_unit_test(r349_a_state_is_written_down_each_so_many_entries),
        cmocka_unit_test(r349_what_was_not_possible_is_tried_again_an_eighth_later),
        cmocka_unit_test(r348_as_many_operations_wait_for_a_disk_as_there_is_room_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
