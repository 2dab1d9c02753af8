// SPDX-License-Identifier: Apache-2.0
// See box.h.
#include "run/box.h"

#include <stdlib.h>
#include <string.h>

#include "rpc/profile.h"
#include "run/boxed.h"
#include "wire/feedback.h"

enum { RECENT_PAIRS = 1 << 17, MOST = 65536 };
// A request that a group keeps for a second without ordering it may still be answered within another one.
static const uint64_t TIMEOUT_NS = 2000000000, SLOW_START_NS = 1000000000;

struct bt_box_front {
    struct bt_box_front_config conf;
    struct bt_group_document document;
    struct bt_port port;
    struct bt_box *box;
    uint64_t now;
    uint64_t counter[BT_BOX_COUNTERS];
    struct bt_box_counts before; // of boxes that were put away
};

#define WORD(name, word) [BT_BOX_BAD_##name] = {"box_refused_total", "reason", word},
const struct bt_counter_desc bt_box_counter_desc[BT_BOX_COUNTERS] = {
    BT_BOX_COUNTER_LIST(WORD)[BT_BOX_PASSED] = {"box_requests_total", "fate", "passed"},
    [BT_BOX_PASSED_AGAIN] = {"box_requests_total", "fate", "passed_again"},
    [BT_BOX_ANSWERED] = {"box_requests_total", "fate", "answered"},
    [BT_BOX_TIMED_OUT] = {"box_requests_total", "fate", "timed_out"},
    [BT_BOX_COPIES] = {"box_copies_sent_total", NULL, NULL},
};

static void count(struct bt_box_front *b, enum bt_box_counter c)
{
    b->counter[c]++;
}

static struct bt_box *new_box(const struct bt_box_front *b, const struct bt_group_document *d, uint64_t now)
{
    struct bt_box_config c = {.limit = (uint32_t)d->in_flight,
                              .timeout_ns = TIMEOUT_NS,
                              .slow_start_ns = SLOW_START_NS,
                              .quarantine_ns = bt_rpc_timers_for(d->device).quarantine_ns,
                              .recent_pairs = b->conf.recent_pairs != 0 ? b->conf.recent_pairs : RECENT_PAIRS,
                              .seed = b->conf.seed};
    void *mem = malloc(bt_box_bytes(&c));
    return mem != NULL ? bt_box_start(mem, &c, now) : NULL;
}

struct bt_box_front *bt_box_front_open(const struct bt_box_front_config *c, uint64_t now)
{
    struct bt_box_front *b = calloc(1, sizeof *b);
    if (b == NULL) {
        return NULL;
    }
    b->conf = *c;
    b->document = *c->document;
    b->now = now;
    if (bt_port_init(&b->port, c->pool, &c->clients, BT_BOX_CLIENTS, c->mtu, MOST)) {
        b->box = new_box(b, &b->document, now);
    }
    if (b->box == NULL) {
        free(b);
        return NULL;
    }
    return b;
}

void bt_box_front_close(struct bt_box_front *b)
{
    if (b != NULL) {
        free(b->box);
        free(b);
    }
}

/* --- clients --- */

static void refuse(struct bt_box_front *b, const struct bt_pkt *pkt, const struct bt_r2p2_hdr *of,
                   enum bt_box_counter what, enum bt_drop_reason reason)
{
    uint8_t text[4 + BT_DROP_WHY] = "DROP";
    struct bt_r2p2_hdr h;
    bt_drop_why_write(text + 4, &(struct bt_drop_why){.reason = (uint8_t)reason});
    bt_r2p2_start(&h, BT_DROP, BT_POLICY_STICKY, of->ext);
    h.last = true;
    h.req_id = of->req_id;
    h.count_or_index = 1;
    count(b, what);
    if (!bt_port_send(&b->port, &pkt->src, &h, text, sizeof text, b->conf.txq)) {
        count(b, BT_BOX_BAD_NO_BUFFER);
    }
}

// One copy, with the client's address and the tag, to one member or to all.
static bool send_copy(struct bt_box_front *b, const struct bt_pkt *pkt, const struct bt_r2p2_hdr *of,
                      const struct bt_addr *to)
{
    const struct bt_key *key = bt_keyring_signer(&b->conf.keys);
    struct bt_pkt *copy = bt_port_packet(&b->port, to);
    struct bt_r2p2_hdr h = *of;
    uint8_t *bytes = copy != NULL ? bt_pkt_append(copy, (uint32_t)of->payload_len) : NULL;
    if (bytes == NULL || key == NULL) {
        if (copy != NULL) {
            bt_pool_put(b->conf.pool, copy);
        }
        return false;
    }
    if (of->payload_len != 0) {
        memcpy(bytes, of->payload, of->payload_len);
    }
    h.opt.present = (of->opt.present & BT_HAS_SESSION) | BT_HAS_FORWARDED | BT_HAS_TAG;
    h.opt.forwarded = pkt->src;
    h.opt.key_id = key->id;
    h.opt.tag_flags = 0;
    memset(h.opt.tag, 0, sizeof h.opt.tag);
    bool right = bt_r2p2_push_header(copy, &h) && copy->len <= bt_port_datagram(&b->port, to) &&
                 bt_tag_sign(copy->data, copy->len, &h, key, &copy->src, &copy->dst);
    if (!right) {
        bt_pool_put(b->conf.pool, copy);
        return false;
    }
    bt_txq_push(b->conf.txq, copy);
    count(b, BT_BOX_COPIES);
    return true;
}

static void send_to_all(struct bt_box_front *b, const struct bt_pkt *pkt, const struct bt_r2p2_hdr *h)
{
    const struct bt_group_document *d = &b->document;
    if (d->multicast.port != 0) {
        b->counter[BT_BOX_BAD_NO_BUFFER] += !send_copy(b, pkt, h, &d->multicast);
        return;
    }
    for (size_t i = 0; i < d->n_members; i++) {
        b->counter[BT_BOX_BAD_NO_BUFFER] += !send_copy(b, pkt, h, &d->member[i].client);
    }
}

// Longer than a member's packets carry, or than a copy with its two more options is.
static bool too_long(const struct bt_box_front *b, const struct bt_r2p2_hdr *h)
{
    struct bt_options all = {.present = (h->opt.present & BT_HAS_SESSION) | BT_HAS_FORWARDED | BT_HAS_TAG};
    uint32_t most = bt_boxed_most(b->conf.mtu), least = bt_r2p2_datagram_max(b->conf.mtu, false);
    return !h->last || h->payload_len > most ||
           h->payload_len + BT_R2P2_HEADER + bt_options_size(&all) > least; // as for an IPv6 client
}

static void judge(struct bt_box_front *b, const struct bt_pkt *pkt, const struct bt_r2p2_hdr *h)
{
    switch (bt_box_request(b->box, b->now, &pkt->src, h->req_id)) {
    case BT_BOX_PASS:
    case BT_BOX_AGAIN:
        send_to_all(b, pkt, h);
        break;
    case BT_BOX_NACK:
        refuse(b, pkt, h, BT_BOX_BAD_BUSY, BT_DROP_BUSY);
        break;
    case BT_BOX_HUSH:
        break;
    }
}

static void on_request(struct bt_box_front *b, const struct bt_pkt *pkt)
{
    struct bt_r2p2_hdr h;
    bool read = bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_ROUTER_REQUESTS, &h) == BT_M_OK;
    if (!read || bt_port_check(&b->port, pkt) != BT_M_OK) {
        count(b, BT_BOX_BAD_MALFORMED);
    } else if (!h.first) {
        count(b, BT_BOX_BAD_REST);
    } else if ((h.opt.present & (BT_HAS_FORWARDED | BT_HAS_TAG)) != 0) {
        count(b, BT_BOX_BAD_FORGED);
    } else if (h.policy < BT_POLICY_REPLICATED_WRITE) {
        refuse(b, pkt, &h, BT_BOX_BAD_UNORDERED, BT_DROP_UNORDERED);
    } else if (too_long(b, &h)) {
        refuse(b, pkt, &h, BT_BOX_BAD_TOO_LONG, BT_DROP_TOO_LONG);
    } else {
        judge(b, pkt, &h);
    }
}

/* --- members --- */

static void on_feedback(struct bt_box_front *b, const struct bt_pkt *pkt)
{
    struct bt_r2p2_hdr h;
    struct bt_feedback fb;
    if (bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_ROUTER_FEEDBACK, &h) != BT_M_OK) {
        count(b, BT_BOX_BAD_FEEDBACK_FORM);
    } else if (bt_tag_verify(pkt->data, pkt->len, &h, &b->conf.keys, &pkt->src, &pkt->dst) != BT_TAG_VALID) {
        count(b, BT_BOX_BAD_FEEDBACK_TAG);
    } else if (bt_feedback_decode(h.payload, h.payload_len, &fb) != BT_M_OK || (fb.flags & BT_FEEDBACK_PAIR) == 0) {
        count(b, BT_BOX_BAD_FEEDBACK_FORM);
    } else {
        bt_box_feedback(b->box, b->now, &fb.client, fb.req_id);
    }
}

void bt_box_front_receive(struct bt_box_front *b, uint64_t now, struct bt_pkt *pkt)
{
    b->now = now;
    if (pkt->local == BT_BOX_CLIENTS) {
        on_request(b, pkt);
    } else {
        on_feedback(b, pkt);
    }
    bt_pool_put(b->conf.pool, pkt);
}

/* --- its owner --- */

static void add_up(struct bt_box_front *b, const struct bt_box_counts *c)
{
    b->before.passed += c->passed;
    b->before.again += c->again;
    b->before.hushed += c->hushed;
    b->before.answered += c->answered;
    b->before.unknown += c->unknown;
    b->before.timed_out += c->timed_out;
}

bool bt_box_front_reconfigure(struct bt_box_front *b, uint64_t now, const struct bt_group_document *d,
                              const struct bt_keyring *keys)
{
    b->now = now;
    if (d->in_flight != b->document.in_flight) {
        struct bt_box *next = new_box(b, d, now);
        if (next == NULL) {
            return false;
        }
        struct bt_box_counts c = bt_box_counts(b->box, now);
        add_up(b, &c);
        free(b->box);
        b->box = next;
    }
    b->document = *d;
    b->conf.keys = *keys;
    return true;
}

uint32_t bt_box_front_limit(const struct bt_box_front *b)
{
    return (uint32_t)b->document.in_flight;
}

uint32_t bt_box_front_inside(struct bt_box_front *b, uint64_t now)
{
    return bt_box_counts(b->box, now).inside;
}

const uint64_t *bt_box_front_counters(struct bt_box_front *b, uint64_t now)
{
    struct bt_box_counts c = bt_box_counts(b->box, now);
    b->counter[BT_BOX_PASSED] = b->before.passed + c.passed;
    b->counter[BT_BOX_PASSED_AGAIN] = b->before.again + c.again;
    b->counter[BT_BOX_ANSWERED] = b->before.answered + c.answered;
    b->counter[BT_BOX_TIMED_OUT] = b->before.timed_out + c.timed_out;
    b->counter[BT_BOX_BAD_HUSHED] = b->before.hushed + c.hushed;
    b->counter[BT_BOX_BAD_FEEDBACK_UNKNOWN] = b->before.unknown + c.unknown;
    return b->counter;
}
