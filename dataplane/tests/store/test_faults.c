// SPDX-License-Identifier: Apache-2.0
// A disk that refuses one operation, and files that no writer left so: the store says which, in which
// file, at which byte, and takes nothing more; what was durable before is there when the disk works again.
#include "unit.h"

#include "bed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "store/block.h"

static const struct bt_disk_ops *plain;
static int list_code, size_code, read_code, create_code, remove_code, sync_code, names_code, write_code;

static int list(struct bt_disk *d, struct bt_disk_file *files, uint32_t max, uint32_t *count)
{
    return list_code != 0 ? list_code : plain->list(d, files, max, count);
}

static int size(struct bt_disk *d, struct bt_disk_file f, uint64_t *bytes)
{
    return size_code != 0 ? size_code : plain->size(d, f, bytes);
}

static int reads = -1; // that still work; -1: all

static int read_at(struct bt_disk *d, struct bt_disk_file f, uint64_t offset, uint8_t *p, uint32_t n, uint32_t *got)
{
    if (reads == 0) {
        *got = 0;
        return EIO;
    }
    reads -= reads > 0;
    return read_code != 0 ? read_code : plain->read(d, f, offset, p, n, got);
}

static int create(struct bt_disk *d, struct bt_disk_file f)
{
    return create_code != 0 ? create_code : plain->create(d, f);
}

static int remove_it(struct bt_disk *d, struct bt_disk_file f)
{
    return remove_code != 0 ? remove_code : plain->remove(d, f);
}

static int sync_it(struct bt_disk *d, struct bt_disk_file f)
{
    return sync_code != 0 ? sync_code : plain->sync(d, f);
}

static int sync_names(struct bt_disk *d)
{
    return names_code != 0 ? names_code : plain->sync_names(d);
}

static int write_at(struct bt_disk *d, struct bt_disk_file f, uint64_t offset, const uint8_t *p, uint32_t n)
{
    return write_code != 0 ? write_code : plain->write(d, f, offset, p, n);
}

// A started store whose disk fails where a code above is set.
static void started(struct bed *b)
{
    static const struct bt_disk_ops failing = {.create = create,
                                               .write = write_at,
                                               .sync = sync_it,
                                               .sync_names = sync_names,
                                               .remove = remove_it,
                                               .read = read_at,
                                               .size = size,
                                               .list = list};
    bed_init(b);
    plain = b->ram.disk.ops;
    b->ram.disk.ops = &failing;
    assert_true(bed_start(b));
}

static void says(struct bed *b, const char *text)
{
    bt_store_error_text(&b->store.why, b->text, sizeof b->text);
    assert_string_equal(b->text, text);
}

static void r372_whatever_the_disk_refuses_at_a_start_is_named(void **state)
{
    static const struct {
        int *code;
        const char *text;
    } rows[] = {
        {&list_code, "the disk failed: cannot list the files, error 5"},
        {&size_code, "the disk failed at segment 1, byte 0: cannot ask for the size, error 5"},
        {&read_code, "the disk failed at segment 1, byte 0: cannot read, error 5"},
        {&create_code, "the disk failed at segment 2, byte 0: cannot create, error 5"},
        {&write_code, "the disk failed at segment 2, byte 0: cannot write, error 5"},
        {&sync_code, "the disk failed at segment 2, byte 0: cannot sync, error 5"},
        {&names_code, "the disk failed at segment 2, byte 0: cannot sync the folder of, error 5"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bed b;
        uint64_t generation = 9;
        started(&b);
        assert_true(bed_append(&b, 1, 5, 1));
        bed_commit(&b);
        *rows[i].code = EIO;
        assert_false(bed_start(&b));
        says(&b, rows[i].text);
        assert_int_equal(b.store.why.trouble, BT_STORE_DISK);
        assert_int_equal(b.store.why.code, EIO);
        *rows[i].code = 0;
        assert_false(bed_append(&b, 6, 6, 1));
        assert_int_equal(bt_store_commit(&b.store, &generation), BT_STORE_FAILED);
        assert_int_equal(generation, 0);
        assert_true(bed_start(&b));
        bed_expect(&b, 1, 5, 1);
        bed_free(&b);
    }
}

// At each of its reads in turn: nothing is believed that could not be read, and nothing is written.
static void r372_a_disk_that_cannot_be_read_to_its_end_is_left_as_it_is(void **state)
{
    struct bed b;
    int n = 0;
    (void)state;
    started(&b);
    assert_true(bed_append(&b, 1, 400, 1) && bed_snapshot(&b, 50, 1, 3000)); // some segments, and a snapshot
    bed_commit(&b);
    uint32_t files = b.ram.files;
    uint64_t writes = b.ram.writes;
    for (bool ok = false; !ok; n++) {
        reads = n;
        ok = bed_start(&b);
        bool all_worked = reads != 0;
        reads = -1;
        assert_true(ok || (b.ram.files == files && b.ram.writes == writes));
        assert_true(ok || (b.store.why.trouble == BT_STORE_DISK && b.store.why.code == EIO));
        assert_true(ok || strcmp(b.store.why.what, "cannot read") == 0);
        assert_true(ok || !all_worked);
    }
    assert_true(n > 5);
    bed_expect(&b, 1, 400, 1);
    bed_free(&b);
}

// Three quarters of the files are for a member that runs; the others are left for its starts.
static void r349_too_many_files_are_said_and_leave_room_for_a_start(void **state)
{
    struct bed b;
    (void)state;
    bed_init(&b);
    b.config.files_max = 8;
    assert_true(bed_start(&b));
    uint64_t last = 0, generation;
    while (bed_append(&b, last + 1, last + 1, 1) && bt_store_commit(&b.store, &generation) == BT_STORE_DURABLE) {
        last++;
        assert_true(last < 5000);
    }
    says(&b, "the disk failed at segment 7, byte 0: too many files for a new one; is no snapshot taken?, error 23");
    assert_int_equal(b.ram.files, 6);
    assert_true(bed_start(&b));
    assert_int_equal(b.ram.files, 7);
    bed_expect(&b, 1, last, 1);
    bed_free(&b);
}

static void r349_a_file_that_cannot_be_removed_is_removed_later(void **state)
{
    struct bed b;
    (void)state;
    started(&b);
    assert_true(bed_append(&b, 1, 400, 2)); // two segments
    assert_true(bed_snapshot(&b, 400, 2, 10));
    assert_true(bed_compact(&b, 400));
    bed_commit(&b);
    uint32_t files = b.ram.files;
    assert_true(files >= 4);
    remove_code = EIO;
    assert_true(bed_append(&b, 401, 401, 2)); // which proves the newest head
    bed_commit(&b);
    assert_int_equal(b.ram.files, files);
    assert_int_equal(b.store.files_n, files);
    assert_int_equal(b.store.counter[BT_STORE_NOT_REMOVED], files - 2);
    remove_code = 0;
    assert_true(bed_snapshot(&b, 401, 2, 10));
    assert_true(bed_compact(&b, 401));
    bed_commit(&b);
    assert_true(bed_append(&b, 402, 402, 2));
    bed_commit(&b);
    assert_int_equal(b.ram.files, 2);
    assert_int_equal(b.store.files_n, 2);
    assert_int_equal(b.store.counter[BT_STORE_NOT_REMOVED], files - 2);
    bed_free(&b);
}

static bool truncate_it(struct bed *b)
{
    return bed_truncate(b, 12);
}

static bool vote(struct bed *b)
{
    return bed_vote(b, 7, 3);
}

static bool take_snapshot(struct bed *b)
{
    return bed_snapshot(b, 12, 1, 10);
}

static bool compact(struct bed *b)
{
    return bed_compact(b, 5);
}

// What was gathered has to be written before the operation is taken: it is not taken, and the log stays as it was.
static void r372_an_operation_is_not_taken_when_what_is_before_it_cannot_be_written(void **state)
{
    static bool (*const operations[])(struct bed *) = {truncate_it, vote, take_snapshot, compact};
    (void)state;
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        struct bed b;
        uint64_t generation, last = 10;
        started(&b);
        assert_true(bed_append(&b, 1, 10, 1));
        assert_true(bed_snapshot(&b, 5, 1, 3));
        bed_commit(&b);
        while (b.store.gathered + bt_record_bytes(0) <= b.config.batch_bytes) { // until nothing fits any more
            last++;
            assert_true(bed_append(&b, last, last, 1));
        }
        struct bt_log before = b.store.log;
        uint64_t taken = b.store.taken;
        write_code = EIO;
        assert_false(operations[i](&b));
        write_code = 0;
        assert_int_equal(b.store.why.code, EIO);
        assert_true(b.store.failed && b.store.taken == taken);
        assert_true(b.store.log.last == before.last && b.store.log.hard.term == before.hard.term);
        assert_true(b.store.log.base == before.base && b.store.log.snapshot == before.snapshot);
        assert_int_equal(bt_store_commit(&b.store, &generation), BT_STORE_FAILED);
        assert_true(bed_start(&b));
        bed_expect(&b, 1, 10, 1);
        bed_free(&b);
    }
}

// Nothing is kept that a sync could save: neither files nor names are synced.
static void r375_volatile_syncs_nothing(void **state)
{
    struct bed b;
    (void)state;
    started(&b);
    assert_int_equal(ram_newest(&b.ram, BT_DISK_SEGMENT)->id.number, 1);
    assert_int_equal(plain->remove(&b.ram.disk, b.ram.file[0].id), 0);
    b.config.policy = BT_STORE_VOLATILE;
    sync_code = names_code = EIO;
    assert_true(bed_start(&b));
    assert_true(bed_append(&b, 1, 400, 1) && bed_snapshot(&b, 300, 1, 5000) && bed_compact(&b, 300));
    bed_commit(&b);
    sync_code = names_code = 0;
    assert_int_equal(b.store.counter[BT_STORE_SYNCS], 0);
    bed_free(&b);
}

static void r374_an_operation_that_does_not_exist_is_refused(void **state)
{
    struct bed b;
    (void)state;
    started(&b);
    assert_false(bed_take(&b, (struct bt_store_op){.kind = BT_STORE_COMPACT + 1}));
    says(&b, "refused operation: an operation of unknown kind");
    assert_true(b.store.failed);
    bed_free(&b);
}

static void r369_a_number_that_no_file_has_is_damage(void **state)
{
    struct bed b;
    struct bt_disk_file strange = {.number = UINT64_MAX / 2, .kind = BT_DISK_SNAPSHOT};
    (void)state;
    started(&b);
    assert_true(ram_put(&b.ram, strange, NULL, 0));
    assert_false(bed_start(&b));
    says(&b, "damaged at snapshot 9223372036854775807, byte 0: a number that no file has; this member must not start: "
             "remove its disk and add a new member");
    assert_int_equal(plain->remove(&b.ram.disk, strange), 0);
    strange.number--;
    assert_true(ram_put(&b.ram, strange, NULL, 0));
    assert_true(bed_start(&b));
    assert_int_equal(b.store.next_number, UINT64_MAX / 2 + 1);
    bed_free(&b);
}

// Two segments and more; what is missing or changed in one that others follow was durable.
static void r369_an_older_segment_that_lost_its_end_fences(void **state)
{
    (void)state;
    for (uint64_t blocks = 0; blocks < 12; blocks += 4) {
        struct bed b;
        char text[160];
        started(&b);
        assert_true(bed_append(&b, 1, 400, 1));
        bed_commit(&b);
        assert_true(b.store.chain_n >= 2 && b.ram.file[0].id.number == 1);
        b.ram.file[0].size = blocks * BT_BLOCK_BYTES;
        assert_false(bed_start(&b));
        assert_int_equal(b.store.why.trouble, BT_STORE_DAMAGED);
        snprintf(text, sizeof text, "damaged at segment 1, byte %u: blocks are missing that were durable",
                 (unsigned)b.store.why.byte);
        assert_memory_equal(b.text, text, strlen(text));
        assert_true(b.store.why.byte <= blocks * BT_BLOCK_BYTES);
        bed_free(&b);
    }
    struct bed b;
    started(&b);
    assert_true(bed_append(&b, 1, 400, 1));
    bed_commit(&b);
    b.ram.file[0].bytes[5 * BT_BLOCK_BYTES + 100] ^= 1;
    assert_false(bed_start(&b));
    assert_non_null(strstr(b.text, "damaged at segment 1, byte 2560: a block's checksum is wrong"));
    bed_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r372_whatever_the_disk_refuses_at_a_start_is_named),
        cmocka_unit_test(r372_a_disk_that_cannot_be_read_to_its_end_is_left_as_it_is),
        cmocka_unit_test(r349_too_many_files_are_said_and_leave_room_for_a_start),
        cmocka_unit_test(r349_a_file_that_cannot_be_removed_is_removed_later),
        cmocka_unit_test(r372_an_operation_is_not_taken_when_what_is_before_it_cannot_be_written),
        cmocka_unit_test(r375_volatile_syncs_nothing),
        cmocka_unit_test(r374_an_operation_that_does_not_exist_is_refused),
        cmocka_unit_test(r369_a_number_that_no_file_has_is_damage),
        cmocka_unit_test(r369_an_older_segment_that_lost_its_end_fences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
