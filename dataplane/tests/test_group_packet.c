// SPDX-License-Identifier: Apache-2.0
// Packets between members, notes, and the words behind DROP, byte by byte.
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/group_packet.h"

static struct bt_pool_fixed fixed;
static void *slab;
static const struct bt_key ours = {1, {1, 2, 3}}, theirs = {2, {4, 5, 6}};

static int setup(void **state)
{
    (void)state;
    slab = aligned_alloc(64, (bt_pool_fixed_bytes(1) + 63) / 64 * 64);
    bt_pool_fixed_init(&fixed, slab, 1);
    return slab == NULL;
}

static int teardown(void **state)
{
    (void)state;
    free(slab);
    return 0;
}

static struct bt_pkt *empty(void)
{
    struct bt_pkt *pkt = bt_pool_get(&fixed.pool);
    assert_non_null(pkt);
    pkt->src = bt_addr_v4u(0x0a000001, 9100);
    pkt->dst = bt_addr_v4u(0x0a000002, 9100);
    return pkt;
}

static struct bt_pkt *packet_of(const uint8_t *message, size_t n, const struct bt_key *key)
{
    struct bt_pkt *pkt = empty();
    assert_true(bt_group_packet_write(pkt, message, n, UINT64_C(0x0102030405060708), key));
    return pkt;
}

static const uint8_t message[BT_GROUP_HEADER + 1] = {BT_GROUP_VERSION, BT_GROUP_TAKE_OVER, 0, 3, [BT_GROUP_HEADER] = 7};

static void r381_a_packet_holds_a_message_and_a_disk(void **state)
{
    (void)state;
    const struct bt_keyring keys = {{ours}};
    const struct bt_key *const signers[] = {&ours, NULL};
    for (unsigned i = 0; i < 2; i++) {
        struct bt_pkt *pkt = packet_of(message, sizeof message, signers[i]);
        struct bt_group_packet p;
        memset(&p, 0xff, sizeof p);
        assert_int_equal(signers[i] != NULL ? bt_group_packet_open(pkt, &keys, &p)
                                            : bt_group_packet_open_untagged(pkt, &p),
                         BT_GROUP_PACKET_OK);
        assert_int_equal(p.n, sizeof message);
        assert_memory_equal(p.message, message, sizeof message);
        assert_true(p.disk == UINT64_C(0x0102030405060708));
        assert_false(p.is_note);
        bt_pool_put(&fixed.pool, pkt);
    }
}

static void opens_as(struct bt_pkt *pkt, const struct bt_key *key, enum bt_group_packet_result want)
{
    const struct bt_keyring keys = {{*key}};
    struct bt_group_packet p;
    assert_int_equal(bt_group_packet_open(pkt, &keys, &p), want);
}

static void r381_why_a_packet_is_not_opened(void **state)
{
    (void)state;
    struct bt_group_packet p;
    struct bt_pkt *pkt = packet_of(message, sizeof message, &ours);
    opens_as(pkt, &theirs, BT_GROUP_PACKET_UNKNOWN_KEY);
    assert_int_equal(bt_group_packet_open_untagged(pkt, &p), BT_GROUP_PACKET_FORM); // it has a tag
    pkt->data[pkt->len - 1] ^= 1;
    opens_as(pkt, &ours, BT_GROUP_PACKET_WRONG_TAG);
    pkt->data[pkt->len - 1] ^= 1;
    pkt->dst.port++; // signed for another place
    opens_as(pkt, &ours, BT_GROUP_PACKET_WRONG_TAG);
    pkt->dst.port--;
    opens_as(pkt, &ours, BT_GROUP_PACKET_OK);
    pkt->data[2] = BT_REQUEST << 4;
    opens_as(pkt, &ours, BT_GROUP_PACKET_FORM);
    bt_pool_put(&fixed.pool, pkt);
    pkt = packet_of(message, sizeof message, NULL);
    opens_as(pkt, &ours, BT_GROUP_PACKET_UNTAGGED);
    bt_put16(pkt->data + 6, 2); // the first of two, then the last
    pkt->data[3] = 0xa0;
    opens_as(pkt, &ours, BT_GROUP_PACKET_FORM);
    assert_int_equal(bt_group_packet_open_untagged(pkt, &p), BT_GROUP_PACKET_FORM);
    bt_put16(pkt->data + 6, 1);
    pkt->data[3] = 0x60;
    opens_as(pkt, &ours, BT_GROUP_PACKET_FORM);
    assert_int_equal(bt_group_packet_open_untagged(pkt, &p), BT_GROUP_PACKET_FORM);
    bt_pool_put(&fixed.pool, pkt);
    pkt = packet_of(message, BT_GROUP_HEADER, &ours);
    opens_as(pkt, &ours, BT_GROUP_PACKET_OK); // the shortest
    bt_pool_put(&fixed.pool, pkt);
    pkt = packet_of(message, BT_GROUP_HEADER - 1, &ours);
    opens_as(pkt, &ours, BT_GROUP_PACKET_SHORT);
    bt_pool_put(&fixed.pool, pkt);
}

// A tag is of a whole packet whose place for it lies in the header; of what is no such packet none is made.
static void r57_what_cannot_be_signed(void **state)
{
    (void)state;
    static uint8_t p[BT_R2P2_HEADER_MAX + 2049];
    struct bt_addr a = bt_addr_v4u(0x0a000001, 9100);
    struct bt_r2p2_hdr h;
    bt_r2p2_start(&h, BT_RAFT_REQUEST, 0, true);
    h.opt.present = BT_HAS_TAG;
    size_t head = bt_r2p2_encode(p, sizeof p, &h);
    assert_int_equal(head, 20);
    assert_true(bt_tag_sign(p, head + 2048, &h, &ours, &a, &a));
    assert_false(bt_tag_sign(p, head + 2049, &h, &ours, &a, &a));
    assert_true(bt_tag_sign(p, head, &h, &ours, &a, &a));
    assert_false(bt_tag_sign(p, head - 1, &h, &ours, &a, &a));
    h.opt.tag_offset++;
    assert_false(bt_tag_sign(p, head, &h, &ours, &a, &a));
    h.opt.tag_offset--;
    h.opt.present = 0;
    assert_false(bt_tag_sign(p, head, &h, &ours, &a, &a));
}

static void r381_the_longest_message_fits_its_packet(void **state)
{
    (void)state;
    static uint8_t longest[BT_PKT_BUFFER] = {BT_GROUP_VERSION};
    uint32_t most = bt_group_packet_most(1500), room = BT_PKT_BUFFER - BT_PKT_HEADROOM;
    struct bt_pkt *pkt = packet_of(longest, most, &ours);
    assert_int_equal(pkt->len, bt_r2p2_datagram_max(1500, false));
    bt_pool_put(&fixed.pool, pkt);
    pkt = empty();
    assert_true(bt_group_packet_write(pkt, longest, room - BT_GROUP_TRAILER, 1, NULL));
    bt_pool_put(&fixed.pool, pkt);
    pkt = empty();
    assert_false(bt_group_packet_write(pkt, longest, room - BT_GROUP_TRAILER + 1, 1, NULL));
    bt_pool_put(&fixed.pool, pkt);
}

static void r382_bytes_of_a_note(void **state)
{
    (void)state;
    const uint8_t bytes[BT_GROUP_NOTE] = {0,    2,    0x01, 0x02, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24,
                                          0x25, 0x26, 0x27, 0x28, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38};
    const struct bt_group_note note = {.why = BT_NOTE_REMOVED,
                                       .id = 0x0102,
                                       .group = 0x11121314,
                                       .cluster = UINT64_C(0x2122232425262728),
                                       .disk = UINT64_C(0x3132333435363738)};
    uint8_t p[BT_GROUP_NOTE];
    struct bt_group_note back = {0};
    bt_group_note_write(p, &note);
    assert_memory_equal(p, bytes, sizeof bytes);
    assert_true(bt_group_note_read(p, sizeof p, &back));
    assert_true(back.why == note.why && back.id == note.id && back.group == note.group);
    assert_true(back.cluster == note.cluster && back.disk == note.disk);
    assert_false(bt_group_note_read(p, sizeof p - 1, &back));
    assert_false(bt_group_note_read(p, sizeof p + 1, &back));
    for (unsigned why = 0; why < 256; why++) {
        p[1] = (uint8_t)why;
        assert_int_equal(bt_group_note_read(p, sizeof p, &back), why >= BT_NOTE_WRONG_DISK && why <= BT_NOTE_HELLO);
    }
    p[1] = BT_NOTE_HELLO;
    p[0] = 1;
    assert_false(bt_group_note_read(p, sizeof p, &back));
    p[0] = 0;
    struct bt_pkt *pkt = packet_of(p, sizeof p, NULL);
    struct bt_group_packet in;
    assert_int_equal(bt_group_packet_open_untagged(pkt, &in), BT_GROUP_PACKET_OK);
    assert_true(in.is_note);
    bt_pool_put(&fixed.pool, pkt);
}

static void r386_bytes_behind_drop(void **state)
{
    (void)state;
    const uint8_t bytes[BT_DROP_WHY] = {1, 6, 0x01, 0x02, 0,  0, 0, 0, 0,    0,    0, 0,
                                        0, 0, 0xff, 0xff, 10, 1, 2, 3, 0x80, 0xe8, 0, 0};
    const struct bt_drop_why why = {
        .reason = BT_DROP_MOVING, .leader = 0x0102, .client = bt_addr_v4u(0x0a010203, 0x80e8)};
    uint8_t p[BT_DROP_WHY];
    memset(p, 0xff, sizeof p);
    bt_drop_why_write(p, &why);
    assert_memory_equal(p, bytes, sizeof bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r381_a_packet_holds_a_message_and_a_disk),
        cmocka_unit_test(r381_why_a_packet_is_not_opened),
        cmocka_unit_test(r57_what_cannot_be_signed),
        cmocka_unit_test(r381_the_longest_message_fits_its_packet),
        cmocka_unit_test(r382_bytes_of_a_note),
        cmocka_unit_test(r386_bytes_behind_drop),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
