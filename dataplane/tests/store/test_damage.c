// SPDX-License-Identifier: Apache-2.0
// Blocks, and every block of a disk lost or changed: a torn tail is cut, everything else fences the member.
#include "unit.h"

#include "bed.h"

#include <sodium/crypto_shorthash.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

static const struct bt_block_head place = {.file = {.number = 5, .kind = BT_DISK_SEGMENT},
                                           .owner = 0x1122334455667788,
                                           .at = 9,
                                           .start = 8,
                                           .count = 2,
                                           .used = 11};

// The bytes that every release writes and reads.
static void r366_a_block_s_bytes(void **state)
{
    (void)state;
    uint8_t block[BT_BLOCK_BYTES];
    const uint8_t head[40] = {'B',  't',  'L', 'g', 1, 1, 0, 11, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66,
                              0x77, 0x88, 0,   0,   0, 0, 0, 0,  0,    5,    0,    0,    0,    9,
                              0,    0,    0,   8,   0, 0, 0, 2,  0,    0,    0,    0};
    bt_block_seal(block, &place, (const uint8_t *)"a sector of");
    assert_int_equal(bt_get64(block), 0x85567ffd6422f5a4);
    assert_memory_equal(block + 8, head, sizeof head);
    assert_memory_equal(block + BT_BLOCK_HEAD, "a sector of", 12);
    struct bt_block_head h;
    assert_int_equal(bt_block_open(block, &h), BT_BLOCK_VALID);
    assert_int_equal(h.file.number, 5);
    assert_int_equal(h.file.kind, BT_DISK_SEGMENT);
    assert_true(h.owner == place.owner);
    assert_int_equal(h.at, 9);
    assert_int_equal(h.start, 8);
    assert_int_equal(h.count, 2);
    assert_int_equal(h.used, 11);
    assert_int_equal(h.policy, 0);
}

static void r366_no_bit_may_change(void **state)
{
    (void)state;
    uint8_t block[BT_BLOCK_BYTES];
    struct bt_block_head h;
    bt_block_seal(block, &place, (const uint8_t *)"a sector of");
    for (unsigned bit = 0; bit < 8 * BT_BLOCK_BYTES; bit++) {
        block[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(bt_block_open(block, &h), BT_BLOCK_DAMAGED);
        block[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    memset(block, 0, sizeof block);
    assert_int_equal(bt_block_open(block, &h), BT_BLOCK_EMPTY);
}

// Sums that are right over what makes no sense.
static void r366_nonsense_is_not_believed(void **state)
{
    (void)state;
    uint8_t block[BT_BLOCK_BYTES], payload[BT_BLOCK_ROOM] = {1};
    struct bt_block_head h;
    struct bt_block_head wrong[6];
    for (unsigned i = 0; i < 6; i++) {
        wrong[i] = place;
    }
    wrong[0].file.kind = 3;
    wrong[1].count = 0;
    wrong[2].at = 10; // behind its batch
    wrong[3].at = 7;  // before it
    wrong[4].at = 8;  // not the last one, and not full
    wrong[5].policy = 2;
    for (unsigned i = 0; i < 6; i++) {
        bt_block_seal(block, &wrong[i], payload);
        assert_int_equal(bt_block_open(block, &h), BT_BLOCK_DAMAGED);
    }
}

static enum bt_block_state changed(unsigned at, uint8_t value)
{
    uint8_t block[BT_BLOCK_BYTES];
    struct bt_block_head h;
    bt_block_seal(block, &place, (const uint8_t *)"a sector of");
    block[at] = value;
    crypto_shorthash(block, block + 8, BT_BLOCK_BYTES - 8, (const uint8_t *)"bobtail's blocks");
    return bt_block_open(block, &h);
}

// Nor another mark or a byte that no writer sets, above or below; another version is named.
static void r366_every_byte_of_a_head_is_looked_at(void **state)
{
    (void)state;
    const uint8_t mark[4] = {'B', 't', 'L', 'g'};
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(changed(8 + i, mark[i]), BT_BLOCK_VALID);
        assert_int_equal(changed(8 + i, mark[i] + 1), BT_BLOCK_DAMAGED);
        assert_int_equal(changed(8 + i, mark[i] - 1), BT_BLOCK_DAMAGED);
    }
    assert_int_equal(changed(12, BT_STORE_VERSION_NUMBER + 1), BT_BLOCK_OTHER_VERSION);
    assert_int_equal(changed(12, BT_STORE_VERSION_NUMBER - 1), BT_BLOCK_OTHER_VERSION);
    for (unsigned at = 45; at < 48; at++) {
        assert_int_equal(changed(at, 1), BT_BLOCK_DAMAGED);
        assert_int_equal(changed(at, 0), BT_BLOCK_VALID);
    }
    assert_int_equal(changed(44, 1), BT_BLOCK_VALID);
    assert_int_equal(changed(44, 2), BT_BLOCK_DAMAGED);
    assert_int_equal(changed(15, 0), BT_BLOCK_DAMAGED); // nothing in it
    assert_int_equal(changed(14, 0xff), BT_BLOCK_DAMAGED);
}

static void r366_a_block_holds_so_much(void **state)
{
    (void)state;
    static const uint8_t payload[BT_BLOCK_ROOM] = {1};
    uint8_t block[BT_BLOCK_BYTES];
    struct bt_block_head h, full = place;
    full.used = BT_BLOCK_ROOM;
    bt_block_seal(block, &full, payload);
    assert_int_equal(bt_block_open(block, &h), BT_BLOCK_VALID);
    assert_int_equal(h.used, BT_BLOCK_ROOM);
    block[14] = (BT_BLOCK_ROOM + 1) >> 8;
    block[15] = (BT_BLOCK_ROOM + 1) & 0xff;
    crypto_shorthash(block, block + 8, BT_BLOCK_BYTES - 8, (const uint8_t *)"bobtail's blocks");
    assert_int_equal(bt_block_open(block, &h), BT_BLOCK_DAMAGED);
}

// 30 entries in ten batches, the last of three blocks: *last is where it begins.
static void written(struct bed *b, uint32_t *last)
{
    bed_init(b);
    b->config.segment_bytes = 1 << 20;
    assert_true(bed_start(b));
    for (uint64_t i = 0; i < 9; i++) {
        assert_true(bed_append(b, 1 + 3 * i, 3 + 3 * i, 1));
        bed_commit(b);
    }
    *last = b->store.chain[0].end;
    assert_true(bed_append(b, 28, 57, 1));
    bed_commit(b);
    assert_int_equal(b->store.chain[0].end, *last + 3);
}

static uint8_t *block_of(struct bed *b, uint32_t block)
{
    return ram_newest(&b->ram, BT_DISK_SEGMENT)->bytes + (size_t)block * BT_BLOCK_BYTES;
}

// of a batch that is not whole nothing is believed.
static void r368_a_torn_tail_is_cut(void **state)
{
    (void)state;
    struct bed whole, b;
    uint32_t last;
    written(&whole, &last);
    for (uint32_t missing = 1; missing < 8; missing++) { // every set of the last batch's blocks
        bed_copy(&b, &whole);
        for (uint32_t i = 0; i < 3; i++) {
            if (missing & 1u << i) {
                memset(block_of(&b, last + i), 0, BT_BLOCK_BYTES);
            }
        }
        assert_true(bed_start(&b));
        bed_expect(&b, 1, 27, 1);
        assert_true(bed_append(&b, 28, 28, 1)); // and the log goes on; what was cut does not come back
        bed_commit(&b);
        assert_true(bed_start(&b));
        bed_expect(&b, 1, 28, 1);
        bed_free(&b);
    }
    for (uint64_t bytes = 0; bytes < 3 * BT_BLOCK_BYTES; bytes += 100) { // a file that is too short
        bed_copy(&b, &whole);
        ram_newest(&b.ram, BT_DISK_SEGMENT)->size = (uint64_t)last * BT_BLOCK_BYTES + bytes;
        assert_true(bed_start(&b));
        bed_expect(&b, 1, 27, 1);
        bed_free(&b);
    }
    bed_free(&whole);
}

static void fenced(struct bed *b, uint32_t block, const char *what)
{
    char at[120];
    assert_false(bed_start(b));
    assert_int_equal(b->store.why.trouble, BT_STORE_DAMAGED);
    snprintf(at, sizeof at, "damaged at segment 1, byte %u: %s;", block * BT_BLOCK_BYTES, what);
    assert_memory_equal(b->text, at, strlen(at));
    bed_free(b);
}

static void r369_a_changed_block_fences(void **state)
{
    (void)state;
    struct bed whole, b;
    uint32_t last;
    written(&whole, &last);
    for (uint32_t block = 0; block < last + 3; block++) {
        bed_copy(&b, &whole);
        block_of(&b, block)[(block * 37) % BT_BLOCK_BYTES] ^= 4;
        fenced(&b, block, "a block's checksum is wrong");
    }
    bed_free(&whole);
}

static void r369_a_missing_block_below_a_later_batch_fences(void **state)
{
    (void)state;
    struct bed whole, b;
    uint32_t last;
    written(&whole, &last);
    for (uint32_t block = 0; block < last; block++) {
        bed_copy(&b, &whole);
        memset(block_of(&b, block), 0, BT_BLOCK_BYTES);
        fenced(&b, block, "blocks are missing that were durable");
    }
    bed_free(&whole);
}

// A recycled or misdirected block is whole and stands elsewhere.
static void r366_a_block_that_lies_elsewhere_fences(void **state)
{
    (void)state;
    struct bed whole, b;
    uint32_t last;
    written(&whole, &last);
    for (uint32_t block = 1; block < last + 3; block++) {
        bed_copy(&b, &whole);
        memcpy(block_of(&b, block), block_of(&whole, block - 1), BT_BLOCK_BYTES);
        fenced(&b, block, "a block of another place lies there");
    }
    bed_free(&whole);
}

// Each is whole, and they contradict each other: of whom they are, and how long their batch is.
static void r366_blocks_of_a_batch_that_disagree_fence(void **state)
{
    (void)state;
    struct bed whole, b;
    uint32_t last;
    written(&whole, &last);
    for (int what = 0; what < 3; what++) {
        uint8_t payload[BT_BLOCK_ROOM];
        struct bt_block_head h;
        bed_copy(&b, &whole);
        uint8_t *block = block_of(&b, last + 1);
        assert_int_equal(bt_block_open(block, &h), BT_BLOCK_VALID);
        memcpy(payload, block + BT_BLOCK_HEAD, BT_BLOCK_ROOM);
        h.owner ^= what == 0;
        h.policy = what == 1 ? BT_STORE_VOLATILE : BT_STORE_ALWAYS;
        h.count += what == 2;
        bt_block_seal(block, &h, payload);
        if (what == 2) {
            fenced(&b, last + 1, "two blocks do not agree how long their batch is");
            continue;
        }
        assert_false(bed_start(&b));
        assert_int_equal(b.store.why.trouble, BT_STORE_MEMBER);
        assert_int_equal(b.store.why.byte, (last + 1) * BT_BLOCK_BYTES);
        assert_string_equal(b.store.why.what, "blocks of two members in one file");
        bed_free(&b);
    }
    bed_free(&whole);
}

static void r369_a_missing_segment_or_snapshot_fences(void **state)
{
    (void)state;
    struct bed whole, b;
    bed_init(&whole);
    assert_true(bed_start(&whole));
    assert_true(bed_append(&whole, 1, 900, 1)); // four segments or more
    assert_true(bed_snapshot(&whole, 10, 1, 3000));
    bed_commit(&whole);
    assert_true(whole.store.chain_n >= 4);
    for (uint32_t i = 0; i < whole.ram.files; i++) {
        bed_copy(&b, &whole);
        struct bt_disk_file gone = b.ram.file[i].id;
        bool newest = gone.number == ram_newest(&b.ram, BT_DISK_SEGMENT)->id.number;
        assert_int_equal(b.ram.disk.ops->remove(&b.ram.disk, gone), 0);
        assert_int_equal(bed_start(&b), newest); // the one before it is a whole store as well, and says so
        assert_int_equal(b.store.why.trouble, newest ? BT_STORE_FINE : BT_STORE_DAMAGED);
        assert_true(newest || strcmp(b.store.why.what, gone.kind == BT_DISK_SEGMENT
                                                           ? "the segment is missing"
                                                           : "the snapshot is missing or not whole") == 0);
        bed_free(&b);
    }
    bed_free(&whole);
}

static void r369_a_changed_snapshot_fences(void **state)
{
    (void)state;
    struct bed whole, b;
    bed_init(&whole);
    assert_true(bed_start(&whole));
    assert_true(bed_append(&whole, 1, 9, 1));
    assert_true(bed_snapshot(&whole, 9, 1, 3000));
    bed_commit(&whole);
    uint64_t size = ram_newest(&whole.ram, BT_DISK_SNAPSHOT)->size;
    for (uint64_t at = 3; at < size; at += 250) {
        bed_copy(&b, &whole);
        ram_newest(&b.ram, BT_DISK_SNAPSHOT)->bytes[at] ^= 1;
        assert_false(bed_start(&b));
        assert_int_equal(b.store.why.trouble, BT_STORE_DAMAGED);
        assert_non_null(strstr(b.text, "damaged at snapshot 2, byte "));
        bed_free(&b);
        bed_copy(&b, &whole);
        ram_newest(&b.ram, BT_DISK_SNAPSHOT)->size = at / BT_BLOCK_BYTES * BT_BLOCK_BYTES;
        assert_false(bed_start(&b));
        assert_int_equal(b.store.why.trouble, BT_STORE_DAMAGED);
        bed_free(&b);
    }
    bed_free(&whole);
}

// A segment that a crash left half begun hides nothing.
static void r368_a_torn_first_batch_is_no_segment(void **state)
{
    (void)state;
    struct bed b;
    uint32_t last;
    written(&b, &last);
    uint64_t number = ram_newest(&b.ram, BT_DISK_SEGMENT)->id.number + 1;
    assert_true(ram_put(&b.ram, (struct bt_disk_file){.number = number, .kind = BT_DISK_SEGMENT}, NULL, 0));
    static const uint8_t empty[4 * BT_BLOCK_BYTES];
    assert_true(
        ram_put(&b.ram, (struct bt_disk_file){.number = number + 1, .kind = BT_DISK_SEGMENT}, empty, sizeof empty));
    assert_true(bed_start(&b));
    bed_expect(&b, 1, 57, 1);
    assert_int_equal(ram_newest(&b.ram, BT_DISK_SEGMENT)->id.number, number + 2);
    assert_int_equal(b.ram.files, 2); // the two are gone
    bed_free(&b);
}

static void r376_an_unknown_version_is_named(void **state)
{
    (void)state;
    struct bed b;
    uint32_t last;
    written(&b, &last);
    uint8_t *block = block_of(&b, 2);
    block[12] = BT_STORE_VERSION_NUMBER + 1;
    crypto_shorthash(block, block + 8, BT_BLOCK_BYTES - 8, (const uint8_t *)"bobtail's blocks");
    assert_false(bed_start(&b));
    assert_int_equal(b.store.why.trouble, BT_STORE_VERSION);
    assert_int_equal(b.store.why.byte, 2 * BT_BLOCK_BYTES);
    bed_free(&b);
    struct bt_store_error e = {
        .trouble = BT_STORE_VERSION, .file = {.number = 3, .kind = BT_DISK_SEGMENT}, .byte = 512};
    char text[200], small[8];
    bt_store_error_text(&e, text, sizeof text);
    assert_string_equal(
        text,
        "refused: written by another version of the format at segment 3, byte 512; start the release that wrote it");
    assert_int_equal(bt_store_error_text(&e, small, sizeof small), 7);
    assert_string_equal(small, "refused");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r366_a_block_s_bytes),
        cmocka_unit_test(r366_no_bit_may_change),
        cmocka_unit_test(r366_nonsense_is_not_believed),
        cmocka_unit_test(r366_every_byte_of_a_head_is_looked_at),
        cmocka_unit_test(r366_a_block_holds_so_much),
        cmocka_unit_test(r368_a_torn_tail_is_cut),
        cmocka_unit_test(r369_a_changed_block_fences),
        cmocka_unit_test(r369_a_missing_block_below_a_later_batch_fences),
        cmocka_unit_test(r366_a_block_that_lies_elsewhere_fences),
        cmocka_unit_test(r366_blocks_of_a_batch_that_disagree_fence),
        cmocka_unit_test(r369_a_missing_segment_or_snapshot_fences),
        cmocka_unit_test(r369_a_changed_snapshot_fences),
        cmocka_unit_test(r368_a_torn_first_batch_is_no_segment),
        cmocka_unit_test(r376_an_unknown_version_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
