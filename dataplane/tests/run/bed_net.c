// SPDX-License-Identifier: Apache-2.0
// The network of a bed, the steps of its time, and a client.
#include "bed.h"

#include "unit.h"

#include <string.h>
#include <time.h>

#include "base/bytes.h"

enum { PATIENCE_MS = 60000 };

static void to_client(struct bed *b, const struct bt_pkt *pkt)
{
    struct bt_r2p2_hdr h;
    if (bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_CLIENT, &h) != BT_M_OK) {
        return;
    }
    b->replies += h.type == BT_REPLY;
    if (h.req_id == b->rid) {
        b->reply_type = h.type;
        b->reply_n = h.payload_len < BED_REPLY ? (uint32_t)h.payload_len : (uint32_t)BED_REPLY;
        memcpy(b->reply, h.payload, b->reply_n);
    }
}

static struct bt_pkt *copy_of(struct bed *b, const struct bt_pkt *pkt)
{
    struct bt_pkt *copy = bt_pool_get(&b->pool.pool);
    memcpy(bt_pkt_append(copy, pkt->len), pkt->data, pkt->len);
    copy->src = pkt->src;
    copy->dst = pkt->dst;
    return copy;
}

void bed_give(struct bed *b, uint16_t id, struct bt_pkt *pkt)
{
    bool group = bt_addr_is_multicast(&pkt->dst);
    pkt->local = (uint16_t)(group ? BT_MEMBER_GROUP : pkt->dst.port == 8000 ? BT_MEMBER_CLIENTS : BT_MEMBER_MEMBERS);
    if (b->member[id] == NULL || b->cut[id] || (b->deaf[id] && pkt->src.ip[15] == BED_BOX)) {
        bt_pool_put(&b->pool.pool, pkt);
    } else {
        bt_member_receive(b->member[id], b->now, pkt);
    }
}

static void to_box(struct bed *b, struct bt_pkt *pkt)
{
    pkt->local = (uint16_t)(pkt->dst.port == 8000 ? BT_BOX_CLIENTS : BT_BOX_FEEDBACK);
    if (b->box != NULL) {
        bt_box_front_receive(b->box, b->now, pkt);
    } else {
        bt_pool_put(&b->pool.pool, pkt);
    }
}

// The same message with a tag of this key in the place of none, or the other way round (key NULL). A switch has no
// tags; what does its work here has.
static struct bt_pkt *signed_as(struct bed *b, struct bt_pkt *pkt, const struct bt_key *key)
{
    struct bt_group_packet p;
    struct bt_pkt *out = bt_pool_get(&b->pool.pool);
    enum bt_group_packet_result r =
        key != NULL ? bt_group_packet_open_untagged(pkt, &p) : bt_group_packet_open(pkt, &b->keys, &p);
    assert_int_equal(r, BT_GROUP_PACKET_OK);
    out->src = pkt->src;
    out->dst = pkt->dst;
    assert_true(bt_group_packet_write(out, p.message, p.n, p.disk, key));
    bt_pool_put(&b->pool.pool, pkt);
    return out;
}

static void to_aggregator(struct bed *b, struct bt_pkt *pkt)
{
    if (b->document.aggregator.messages == BT_GROUP_BY_SOURCE) {
        pkt = signed_as(b, pkt, &b->keys.key[0]);
    }
    pkt->local = BT_AGGREGATOR_PORT;
    b->to_aggregator++;
    if (b->aggregator != NULL) {
        bt_aggregator_front_receive(b->aggregator, pkt);
    } else {
        bt_pool_put(&b->pool.pool, pkt);
    }
}

static void deliver(struct bed *b, struct bt_pkt *pkt)
{
    uint8_t from = pkt->src.ip[15], to = pkt->dst.ip[15];
    if (from == BED_AGGREGATOR && b->document.aggregator.messages == BT_GROUP_BY_SOURCE) {
        pkt = signed_as(b, pkt, NULL);
    }
    bool gone = to > BED_MEMBERS || b->member[to] == NULL || b->cut[to] || (from <= BED_MEMBERS && b->cut[from]);
    if (bt_addr_is_multicast(&pkt->dst)) {
        for (uint16_t id = 1; id <= BED_MEMBERS; id++) {
            bed_give(b, id, copy_of(b, pkt));
        }
        bt_pool_put(&b->pool.pool, pkt);
        return;
    }
    if ((to == BED_BOX || to == BED_AGGREGATOR) && !(from <= BED_MEMBERS && b->cut[from])) {
        (to == BED_BOX ? to_box : to_aggregator)(b, pkt);
        return;
    }
    if (to == BED_CLIENT) {
        to_client(b, pkt);
    }
    if (gone) {
        bt_pool_put(&b->pool.pool, pkt);
        return;
    }
    bed_give(b, to, pkt);
}

// Time stands still while a disk is at work, unless a test holds it up: else what the machine does meanwhile decides
// what the members see.
static void await_disks(struct bed *b)
{
    enum { LOOKS = 100000 };
    for (uint16_t id = 1; id <= BED_MEMBERS; id++) {
        const struct bed_disk *d = &b->disk[id];
        for (int looks = 0; b->member[id] != NULL && looks < LOOKS; looks++) {
            struct bt_member_status s = bed_status(b, id);
            bool idle = s.phase != BT_MEMBER_RUNNING || s.core.storing == 0;
            if (idle || atomic_load(&d->stalled) || atomic_load(&d->fails) != 0) {
                break;
            }
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
            bt_member_turn(b->member[id], b->now, false);
        }
    }
}

void bed_step(struct bed *b)
{
    await_disks(b);
    b->now += 1000000;
    for (uint16_t id = 1; id <= BED_MEMBERS; id++) {
        if (b->member[id] != NULL) {
            bt_member_turn(b->member[id], b->now, true);
        }
    }
    for (struct bt_pkt *pkt; (pkt = bt_txq_pop(&b->txq)) != NULL;) {
        deliver(b, pkt);
    }
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL); // the storage threads
}

void bed_until(struct bed *b, bool (*so)(struct bed *, uint16_t), uint16_t id)
{
    for (int ms = 0; !so(b, id); ms++) {
        if (ms >= PATIENCE_MS) {
            for (uint16_t i = 1; i <= BED_MEMBERS; i++) {
                if (b->member[i] != NULL) {
                    struct bt_member_status s = bed_status(b, i);
                    print_message(
                        "member %u: %s, role %d, term %u, leader %u, commit %u, applied %u, last %u, durable %u\n", i,
                        s.reason, (int)s.core.role, (unsigned)s.core.term, s.leader, (unsigned)s.core.commit,
                        (unsigned)s.core.applied, (unsigned)s.core.last, (unsigned)s.core.durable);
                }
            }
            fail();
        }
        bed_step(b);
    }
}

struct bt_member_status bed_status(struct bed *b, uint16_t id)
{
    struct bt_member_status s;
    bt_member_status(b->member[id], b->now, &s);
    return s;
}

uint16_t bed_leader(struct bed *b)
{
    uint16_t best = 0;
    uint64_t term = 0;
    for (uint16_t id = 1; id <= BED_MEMBERS; id++) {
        if (b->member[id] == NULL || b->cut[id]) {
            continue;
        }
        struct bt_member_status s = bed_status(b, id);
        if (s.phase == BT_MEMBER_RUNNING && s.core.role == BT_REPLICA_LEADER && s.core.term > term) {
            best = id;
            term = s.core.term;
        }
    }
    return best;
}

struct bt_pkt *bed_boxed(struct bed *b, const struct bt_addr *dst, uint16_t rid, uint64_t add, const struct bt_key *key)
{
    struct bt_pkt *pkt = bt_pool_get(&b->pool.pool);
    struct bt_r2p2_hdr h;
    pkt->src = bed_address(BED_BOX, 8000);
    pkt->dst = *dst;
    bt_put64(bt_pkt_append(pkt, 8), add);
    bt_r2p2_start(&h, BT_REQUEST, BT_POLICY_REPLICATED_WRITE, true);
    h.last = true;
    h.count_or_index = 1;
    h.req_id = rid;
    h.opt = (struct bt_options){.present = BT_HAS_FORWARDED | (key != NULL ? BT_HAS_TAG : 0),
                                .forwarded = bed_address(BED_CLIENT, 5000),
                                .key_id = key != NULL ? key->id : 0};
    assert_true(bt_r2p2_push_header(pkt, &h));
    assert_true(key == NULL || bt_tag_sign(pkt->data, pkt->len, &h, key, &pkt->src, &pkt->dst));
    return pkt;
}

void bed_send(struct bed *b, const struct bed_ask *a)
{
    struct bt_pkt *pkt = bt_pool_get(&b->pool.pool);
    struct bt_r2p2_hdr h;
    pkt->src = bed_address(BED_CLIENT, 5000);
    pkt->dst = bed_address(a->to, 8000);
    bt_put64(bt_pkt_append(pkt, 8), a->add);
    bt_r2p2_start(&h, BT_REQUEST, a->policy, true);
    h.last = true;
    h.count_or_index = 1;
    h.req_id = ++b->rid;
    if (a->session != 0) {
        h.opt.present = BT_HAS_SESSION;
        h.opt.session = a->session;
        h.opt.session_seq = a->seq;
    }
    assert_true(bt_r2p2_push_header(pkt, &h));
    b->reply_type = 0xff;
    deliver(b, pkt);
}

bool bed_ask(struct bed *b, const struct bed_ask *a)
{
    bed_send(b, a);
    for (int ms = 0; ms < 1000 && b->reply_type == 0xff; ms++) {
        bed_step(b);
    }
    return b->reply_type == BT_REPLY;
}

uint64_t bed_sum(const struct bed *b, unsigned at)
{
    assert_int_equal(b->reply_n, at + 8);
    return bt_get64(b->reply + at);
}
