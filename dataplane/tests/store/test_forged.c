// SPDX-License-Identifier: Apache-2.0
// Records whose blocks are whole and whose words contradict each other, and logs that are longer than the room
// for them: neither is believed, and each is said in its own words.
#include "unit.h"

#include "bed.h"

#include <stdlib.h>
#include <string.h>

#include "store/block.h"
#include "store/replay.h"

enum { ROOM = 8192, ENTRIES = 16 };

// A replay by itself: what it is given is written into `p`.
static struct bt_store_error why;
static struct bt_scan scan;
static struct bt_entry entry[ENTRIES];
static struct bt_image image;
static uint8_t p[ROOM], bytes[ROOM];
static uint32_t n;

static struct bt_replay begin(uint64_t base)
{
    why = (struct bt_store_error){.trouble = BT_STORE_FINE};
    bt_scan_init(&scan, NULL, NULL, 0, &why);
    bt_scan_open(&scan, (struct bt_disk_file){.number = 4, .kind = BT_DISK_SEGMENT});
    image = (struct bt_image){.entry = entry, .entries_max = ENTRIES, .bytes = bytes, .bytes_max = ROOM};
    n = 0;
    return (struct bt_replay){.image = &image, .base = base};
}

static void put(uint8_t type, uint8_t kind, uint64_t a, uint64_t b)
{
    struct bt_record r = {.type = type, .kind = kind, .length = 5, .a = a, .b = b, .body = (const uint8_t *)"bytes"};
    r.length = type == BT_RECORD_ENTRY ? 5 : 0;
    n += bt_record_put(p + n, &r);
}

static void put_head(uint64_t base, uint64_t last)
{
    struct bt_segment_head h = {.number = 4, .first = 4, .log = {.base = base, .last = last, .snapshot = base}};
    h.snapshot = (struct bt_snapshot_mark){.number = base != 0 ? 2 : 0, .last_index = base};
    n += bt_segment_head_put(p + n, &h);
}

// The records so far as a batch at this block; they are gone afterwards.
static bool replayed(struct bt_replay *r, uint32_t block)
{
    uint64_t records;
    struct bt_batch b = {.payload = p, .room = ROOM, .bytes = n};
    bool ok = bt_replay_batch(r, &scan, block, &b, &records);
    n = 0;
    return ok;
}

static void fenced(struct bt_replay *r, uint32_t block, const char *what)
{
    assert_false(replayed(r, block));
    assert_int_equal(why.trouble, BT_STORE_DAMAGED);
    assert_string_equal(why.what, what);
    assert_true(why.file.number == 4 && why.byte == block * (uint64_t)BT_BLOCK_BYTES);
}

static void r369_records_are_applied_in_their_order(void **state)
{
    uint64_t records = 0;
    (void)state;
    struct bt_replay r = begin(0);
    put_head(0, 0);
    uint32_t head = n;
    put(BT_RECORD_ENTRY, BT_ENTRY_COMMAND, 1, 1);
    put(BT_RECORD_ENTRY, BT_ENTRY_NOOP, 2, 1);
    put(BT_RECORD_ENTRY, BT_ENTRY_COMMAND, 3, 1);
    put(BT_RECORD_TRUNCATE, 0, 2, 0);
    put(BT_RECORD_HARD_STATE, 0, 6, UINT16_MAX);
    put(BT_RECORD_ENTRY, BT_ENTRY_COMMAND, 2, 5);
    struct bt_batch b = {.payload = p, .room = ROOM, .bytes = n};
    assert_true(bt_replay_batch(&r, &scan, 0, &b, &records));
    assert_int_equal(records, head); // behind the head
    assert_true(image.count == 2 && image.used == 10);
    assert_true(entry[0].index == 1 && entry[0].term == 1 && entry[0].kind == BT_ENTRY_COMMAND);
    assert_true(entry[1].index == 2 && entry[1].term == 5 && entry[1].length == 5);
    assert_ptr_equal(entry[1].body, bytes + 5); // where the first of the two that are gone was
    assert_true(r.log.hard.term == 6 && r.log.hard.vote == UINT16_MAX && r.top == 3);
    assert_true(bt_replay_end(&r, &scan, &(struct bt_snapshot_mark){.last_index = 0}));
    assert_int_equal(image.count, 2);
}

static void r369_a_record_that_contradicts_those_before_it_fences(void **state)
{
    static const char what[] = "a record contradicts those before it";
    static const struct bt_record rows[] = {
        {.type = BT_RECORD_ENTRY, .kind = BT_ENTRY_COMMAND, .a = 2}, // it follows nothing
        {.type = BT_RECORD_ENTRY, .kind = BT_ENTRY_KINDS, .a = 1},
        {.type = BT_RECORD_TRUNCATE, .a = 2},
        {.type = BT_RECORD_HARD_STATE, .a = 1, .b = UINT16_MAX + 1},
        {.type = BT_RECORD_SNAPSHOT, .a = 1},
        {.type = BT_RECORD_SNAPSHOT + 1, .a = 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bt_replay r = begin(0);
        put_head(0, 0);
        assert_true(replayed(&r, 0));
        put(rows[i].type, rows[i].kind, rows[i].a, rows[i].b);
        fenced(&r, 3, what);
    }
    struct bt_replay r = begin(0);
    put_head(0, 0);
    put_head(0, 0); // first of a segment, and nowhere else
    fenced(&r, 0, what);
    r = begin(0);
    put_head(0, 0);
    fenced(&r, 1, what);
    r = begin(0);
    put_head(0, 0);
    memset(p + n, 0xff, 30);
    n += 30;
    fenced(&r, 0, "a batch holds what is no record");
    r = begin(0);
    put(BT_RECORD_ENTRY, BT_ENTRY_COMMAND, 1, 1);
    fenced(&r, 0, "the segment's head is wrong");
}

static void r369_a_segment_follows_the_one_before_it(void **state)
{
    static const struct {
        bool begun; // behind a segment that ends with entry 3; else it is the first one, and 10 is wanted first
        uint64_t base, last;
        bool follows;
    } rows[] = {{true, 0, 3, true},   {true, 0, 2, false},   {true, 0, 4, false},
                {true, 8, 8, true},   {false, 4, 9, true},   {false, 4, 8, true},
                {false, 4, 10, true}, {false, 4, 11, false}, {false, 11, 11, true}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bt_replay r = begin(rows[i].begun ? 0 : 10);
        if (rows[i].begun) {
            put_head(0, 0);
            for (uint64_t index = 1; index <= 3; index++) {
                put(BT_RECORD_ENTRY, BT_ENTRY_COMMAND, index, 1);
            }
            assert_true(replayed(&r, 0));
        }
        put_head(rows[i].base, rows[i].last);
        if (!rows[i].follows) {
            fenced(&r, 0, "the segment does not follow the one before it");
            continue;
        }
        assert_true(replayed(&r, 0));
        assert_true(r.log.last == rows[i].last && r.log.base == rows[i].base);
        assert_int_equal(image.count, rows[i].begun && rows[i].last == 3 ? 3 : 0); // a log that was emptied has none
    }
}

static void r376_a_log_that_is_longer_than_the_room_for_it_is_said(void **state)
{
    (void)state;
    for (int what = 0; what < 3; what++) {
        struct bt_replay r = begin(0);
        image.entries_max = what == 0 ? 1 : 2;
        image.bytes_max = what == 1 ? 9 : 10;
        put_head(0, 0);
        put(BT_RECORD_ENTRY, BT_ENTRY_COMMAND, 1, 1);
        put(BT_RECORD_ENTRY, BT_ENTRY_COMMAND, 2, 1);
        assert_int_equal(replayed(&r, 0), what == 2);
        if (what != 2) {
            assert_int_equal(why.trouble, BT_STORE_ROOM);
            assert_string_equal(why.what, "a longer log than the image holds");
            assert_int_equal(why.file.number, 4);
        }
    }
    struct bt_replay r = begin(2);
    image.entries_max = 1;
    put_head(0, 0);
    for (uint64_t index = 1; index <= 3; index++) { // those that nobody wants take no room
        put(BT_RECORD_ENTRY, BT_ENTRY_COMMAND, index, 1);
    }
    assert_true(replayed(&r, 0));
    assert_true(image.count == 1 && entry[0].index == 3 && image.used == 5);
}

// The image of entries first … last of term 1, and a log from base to log_last.
static struct bt_replay with_log(uint64_t first, uint64_t last, uint64_t base, uint64_t log_last)
{
    struct bt_replay r = begin(base);
    for (uint64_t index = first; index <= last; index++) {
        entry[image.count++] = (struct bt_entry){.index = index, .term = 1, .body = bytes};
    }
    r.log = (struct bt_log){.base = base, .last = log_last, .snapshot = base};
    return r;
}

static void r349_what_is_read_is_the_whole_log(void **state)
{
    static const struct {
        uint64_t first, last, base, log_last;
        bool whole;
    } rows[] = {{4, 9, 3, 9, true}, {4, 8, 3, 9, false}, {5, 9, 3, 9, false}, {5, 10, 3, 9, false}, {1, 0, 3, 3, true}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bt_replay r = with_log(rows[i].first, rows[i].last, rows[i].base, rows[i].log_last);
        assert_int_equal(bt_replay_end(&r, &scan, &(struct bt_snapshot_mark){.last_index = 3, .last_term = 7}),
                         rows[i].whole);
        assert_true(rows[i].whole || (why.trouble == BT_STORE_DAMAGED && strcmp(why.what, "entries are missing") == 0));
    }
    for (uint64_t at = 4; at <= 9; at++) { // with a snapshot of that entry, in its term and in another
        struct bt_replay r = with_log(4, 9, 3, 9);
        assert_true(bt_replay_end(&r, &scan, &(struct bt_snapshot_mark){.last_index = at, .last_term = 1}));
        assert_true(r.log.base == 3 && r.log.last == 9 && image.count == 6);
        assert_true(bt_replay_end(&r, &scan, &(struct bt_snapshot_mark){.last_index = at, .last_term = 2}));
        assert_true(r.log.base == at && r.log.last == at && image.count == 0 && image.used == 0);
    }
}

/* --- whole files --- */

// The first batch of segment 1 in its place, with this head and owner.
static void forge_head(struct bed *b, const struct bt_segment_head *h, const struct bt_store_ids *owner)
{
    uint8_t head[BT_SEGMENT_HEAD_MAX];
    uint8_t blocks[4 * BT_BLOCK_BYTES];
    uint32_t head_n = bt_segment_head_put(head, h);
    struct bt_block_head at = {
        .file = {.number = 1, .kind = BT_DISK_SEGMENT}, .owner = bt_store_owner(owner), .count = bt_blocks_of(head_n)};
    uint32_t sealed = bt_blocks_seal(blocks, at, head, head_n);
    assert_true(ram_put(&b->ram, at.file, blocks, (uint64_t)sealed * BT_BLOCK_BYTES));
}

static void r369_a_head_that_is_not_its_segment_s_fences(void **state)
{
    (void)state;
    for (int what = 0; what < 3; what++) {
        struct bed b;
        bed_init(&b);
        struct bt_segment_head h = {.ids = b.config.ids, .number = 1, .first = 1};
        struct bt_store_ids owner = b.config.ids;
        h.number = h.first = what == 1 ? 2 : 1;
        owner.member[3] ^= what == 2;
        forge_head(&b, &h, &owner);
        assert_int_equal(bed_start(&b), what == 0);
        if (what != 0) {
            assert_non_null(strstr(b.text, "damaged at segment 1, byte 0: the segment's head is wrong"));
        }
        bed_free(&b);
    }
}

// The snapshot of another log, another term, another length or another member, under the name of the right one.
static void r369_a_snapshot_that_is_not_the_one_named_fences(void **state)
{
    (void)state;
    for (int what = 0; what < 6; what++) {
        struct bed b, other;
        bed_init(&b);
        bed_init(&other);
        other.config.ids.member[2] ^= what == 4;
        for (struct bed *each = &b;; each = &other) {
            bool differs = each == &other;
            assert_true(bed_start(each));
            assert_true(bed_append(each, 1, 20, 1));
            assert_true(bed_snapshot(each, differs && what == 1 ? 11 : 10, differs && what == 2 ? 2 : 1,
                                     differs && what == 3 ? 99 : 100));
            bed_commit(each);
            if (differs) {
                break;
            }
        }
        const struct ram_file *f = ram_newest(&other.ram, BT_DISK_SNAPSHOT);
        assert_true(ram_put(&b.ram, f->id, f->bytes, f->size));
        if (what == 5) { // no record at all
            uint8_t block[BT_BLOCK_BYTES], nonsense[100];
            struct bt_block_head h = {.file = f->id, .owner = bt_store_owner(&b.config.ids), .count = 1};
            memset(nonsense, 0xff, sizeof nonsense);
            assert_int_equal(bt_blocks_seal(block, h, nonsense, sizeof nonsense), 1);
            assert_true(ram_put(&b.ram, h.file, block, sizeof block));
        }
        assert_int_equal(bed_start(&b), what == 0);
        if (what != 0) {
            assert_non_null(strstr(b.text, "damaged at snapshot 2, byte 0: the snapshot is not the one that the newest "
                                           "segment names"));
        }
        bed_free(&b);
        bed_free(&other);
    }
}

// A last batch that a smaller limit does not hold any more, though its blocks are read.
static void r376_a_last_batch_longer_than_a_batch_may_be_now_is_said(void **state)
{
    (void)state;
    for (uint32_t more = 0; more <= 8; more += 8) {
        struct bed b;
        bed_init(&b);
        assert_true(bed_start(&b));
        uint8_t body[2048] = {1};
        struct bt_entry e = {.index = 1, .term = 1, .kind = BT_ENTRY_COMMAND, .body = body};
        e.length = BT_STORE_BATCH_LEAST - BT_RECORD_BYTES + more;
        assert_true(bed_take(&b, (struct bt_store_op){.kind = BT_STORE_APPEND, .append = {.entry = &e, .count = 1}}));
        bed_commit(&b);
        b.config.batch_bytes = BT_STORE_BATCH_LEAST;
        assert_int_equal(bed_start(&b), more == 0);
        if (more != 0) {
            assert_string_equal(b.text, "more on the disk than there is room for");
        }
        bed_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r369_records_are_applied_in_their_order),
        cmocka_unit_test(r369_a_record_that_contradicts_those_before_it_fences),
        cmocka_unit_test(r369_a_segment_follows_the_one_before_it),
        cmocka_unit_test(r376_a_log_that_is_longer_than_the_room_for_it_is_said),
        cmocka_unit_test(r349_what_is_read_is_the_whole_log),
        cmocka_unit_test(r369_a_head_that_is_not_its_segment_s_fences),
        cmocka_unit_test(r369_a_snapshot_that_is_not_the_one_named_fences),
        cmocka_unit_test(r376_a_last_batch_longer_than_a_batch_may_be_now_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
