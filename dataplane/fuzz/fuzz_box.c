// SPDX-License-Identifier: Apache-2.0
// A flow-control box and a member that hears it, packet after packet: raw ones and such that begin well, from a client,
// from a member with or without the group's tag, and straight to the member. What leaves the box for members is what
// they take, in the client's name; nothing else is; no buffer is lost; no more is in the group than the limit.
#include "input.h"
#include "run/box.h"
#include "run/boxed.h"
#include "run/command.h"
#include "wire/feedback.h"

enum { PACKETS = 64, STEPS = 48, LIMIT = 4, MEMBERS = 3 };

static struct bt_pool_fixed pool;
static uint8_t *pool_mem;
static struct bt_group_document document;
static const struct bt_keyring keys = {.key = {{.id = 1, .bytes = {9, 8, 7}}}};
static uint8_t command[65536], again[65536];

static struct bt_addr at(uint8_t host, uint16_t port)
{
    return bt_addr_v4u(0x0a000000u | host, port);
}

static void prepare(bool multicast)
{
    document = (struct bt_group_document){.in_flight = LIMIT, .n_members = MEMBERS, .protocol = BT_GROUP_HOVERCRAFT};
    for (uint8_t i = 0; i < MEMBERS; i++) {
        document.member[i].client = at((uint8_t)(i + 1), 8000);
    }
    if (multicast) {
        document.multicast = bt_addr_v4u(0xef000001u, 8200);
    }
}

// A member's side. from: the client that the box heard, NULL: whoever sent it needs the tag.
static void member(const struct bt_pkt *pkt, const struct bt_addr *from)
{
    struct bt_r2p2_hdr h;
    struct bt_command c;
    bool taken = bt_boxed_is(pkt, &h) && bt_boxed_open(pkt, &h, &keys, false) == BT_GROUP_PACKET_OK;
    CHECK(from == NULL || (taken && bt_addr_eq(&h.opt.forwarded, from)));
    if (!taken) {
        return;
    }
    uint32_t n = bt_boxed_command(&h, command, sizeof command);
    CHECK(n != 0 && bt_command_get(command, n, &c));
    CHECK(c.n == h.payload_len && (c.kind == BT_COMMAND_WRITE) == (h.policy == BT_POLICY_REPLICATED_WRITE));
    CHECK(bt_command_put(again, sizeof again, &c) == n && memcmp(again, command, n) == 0);
    CHECK(from == NULL || c.n <= bt_boxed_most(1500)); // what the box lets through, one message carries
}

static void deliver(struct bt_txq *txq, const struct bt_addr *client)
{
    unsigned copies = 0, drops = 0;
    struct bt_r2p2_hdr h;
    for (struct bt_pkt *pkt; (pkt = bt_txq_pop(txq)) != NULL;) {
        CHECK(pkt->len <= bt_r2p2_datagram_max(1500, true));
        if (bt_addr_eq(&pkt->dst, client)) {
            CHECK(bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_CLIENT, &h) == BT_M_OK && h.type == BT_DROP);
            drops++;
        } else {
            member(pkt, client);
            copies++;
        }
        bt_pool_put(&pool.pool, pkt);
    }
    CHECK(drops <= 1 && (drops == 0 || copies == 0)); // I-6: refused, or passed on
    CHECK(copies == 0 || copies == (document.multicast.port != 0 ? 1 : MEMBERS));
}

static struct bt_pkt *draw(struct input *in, const struct bt_addr *src, const struct bt_addr *dst)
{
    struct bt_pkt *pkt = bt_pool_get(&pool.pool);
    CHECK(pkt != NULL);
    pkt->src = *src;
    pkt->dst = *dst;
    uint8_t how = in8(in);
    if (how < 64) {
        in_raw(in, pkt, how);
    } else {
        in_packet(in, pkt, how & 7u);
    }
    return pkt;
}

// As a member, and perhaps an enemy, writes it.
static struct bt_pkt *feedback(struct input *in, const struct bt_addr *dst)
{
    struct bt_pkt *pkt = bt_pool_get(&pool.pool);
    struct bt_r2p2_hdr h;
    CHECK(pkt != NULL);
    pkt->src = at(1, 8000);
    pkt->dst = *dst;
    struct bt_feedback fb = {.version = 1, .flags = in8(in), .req_id = in8(in) & 7u, .client = at(100, 5000), .n = 1};
    bt_feedback_encode(bt_pkt_append(pkt, BT_FEEDBACK_V1_SIZE), BT_FEEDBACK_V1_SIZE, &fb);
    bt_r2p2_start(&h, BT_FEEDBACK, 0, true);
    h.last = true;
    h.count_or_index = 1;
    h.opt = (struct bt_options){.present = BT_HAS_TAG, .key_id = 1};
    CHECK(bt_r2p2_push_header(pkt, &h));
    if ((in8(in) & 3u) != 0) {
        CHECK(bt_tag_sign(pkt->data, pkt->len, &h, &keys.key[0], &pkt->src, &pkt->dst));
    }
    return pkt;
}

static void step(struct bt_box_front *b, struct input *in, struct bt_txq *txq, uint64_t now)
{
    const struct bt_addr client = at(100, (uint16_t)(5000 + (in8(in) & 1u))), box = at(50, 8000), told = at(50, 9000);
    uint32_t before = bt_box_front_inside(b, now);
    uint8_t what = in8(in) & 3u;
    struct bt_pkt *pkt =
        what == 2 ? feedback(in, &told) : draw(in, what == 1 ? &box : &client, what == 0 ? &box : &told);
    if (what == 1) { // past the box
        member(pkt, NULL);
        bt_pool_put(&pool.pool, pkt);
        return;
    }
    pkt->local = what == 0 ? BT_BOX_CLIENTS : BT_BOX_FEEDBACK;
    bt_box_front_receive(b, now, pkt);
    uint32_t after = bt_box_front_inside(b, now);
    CHECK(after <= LIMIT && after <= before + (what == 0));
    CHECK(what != 3 || after == before); // raw bytes carry no tag
    deliver(txq, &client);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct bt_txq txq;
    uint64_t now = 1000000000;
    if (pool_mem == NULL) {
        pool_mem = malloc(bt_pool_fixed_bytes(PACKETS));
        CHECK(pool_mem != NULL);
        bt_pool_fixed_init(&pool, pool_mem, PACKETS);
    }
    prepare(in8(&in) & 1u);
    bt_txq_init(&txq);
    struct bt_box_front *b = bt_box_front_open(&(struct bt_box_front_config){.document = &document,
                                                                             .clients = at(50, 8000),
                                                                             .feedback = at(50, 9000),
                                                                             .keys = keys,
                                                                             .mtu = 1500,
                                                                             .pool = &pool.pool,
                                                                             .txq = &txq,
                                                                             .seed = 3,
                                                                             .recent_pairs = 64},
                                               now);
    CHECK(b != NULL);
    now += UINT64_C(3000000000); // its silence and its slow start are over
    for (int i = 0; i < STEPS && in.left > 0; i++) {
        step(b, &in, &txq, now);
        now += (uint64_t)in8(&in) << 24;
    }
    bt_box_front_close(b);
    CHECK(pool.left == PACKETS);
    return 0;
}
