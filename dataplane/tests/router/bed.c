// SPDX-License-Identifier: Apache-2.0
// See bed.h.
#include "router/bed.h"

#include <stdlib.h>
#include <string.h>

#define POOL 512u

void bed_defaults(struct bed *b, uint32_t k, uint32_t n)
{
    memset(b, 0, sizeof *b);
    b->now = 5 * SEC;
    b->client = bt_addr_v4u(0x0a000063, 33000);
    b->requests = bt_addr_v4u(0x0a000001, 8000);
    b->feedback = bt_addr_v4u(0x0a000001, 9000);
    for (uint32_t w = 0; w < BED_WORKERS; w++) {
        b->members[w] = bt_addr_v4u(0x0a010000 + w / 4u, (uint16_t)(8000u + w % 4u));
    }
    b->config = (struct bt_router_config){
        .policy = BT_ROUTER_JBSQ,
        .forwarding = BT_FORWARD_ENCAPSULATED,
        .device = BT_DEVICE_KERNEL,
        .depth = n,
        .central_limit = 128,
        .max_queue_ns = SEC,
        .request_timeout_ns = 10 * SEC,
        .max_payload =
            bt_r2p2_datagram_max(1500, true), /* as bobtail-router: without it no request goes the short way */
        .members = b->members,
        .members_n = k,
    };
}

void bed_build(struct bed *b)
{
    b->packets = POOL;
    b->pool_mem = calloc(1, bt_pool_fixed_bytes(POOL));
    assert_non_null(b->pool_mem);
    b->pool = bt_pool_fixed_init(&b->fixed, b->pool_mem, POOL);
    struct bt_router_setup setup = {.max_pairs = 256,
                                    .max_hedges = b->max_hedges,
                                    .seed = 7,
                                    .pool = b->pool,
                                    .request_addr = b->requests,
                                    .feedback_addr = b->feedback};
    size_t bytes = bt_router_bytes(&setup);
    b->mem = aligned_alloc(64, bytes);
    assert_non_null(b->mem);
    memset(b->mem, 0xa5, bytes); /* init must not count on zeroes */
    b->r = bt_router_init(b->mem, bytes, &setup, b->now);
    assert_non_null(b->r);
    bt_txq_init(&b->out);
    bed_apply(b);
    bed_tick(b, 0);
}

void bed_open(struct bed *b, uint32_t k, uint32_t n)
{
    bed_defaults(b, k, n);
    bed_build(b);
}

void bed_close(struct bed *b)
{
    bed_discard(b);
    bt_router_discard_held(b->r);
    assert_int_equal(b->fixed.left, b->packets);
    free(b->mem);
    free(b->pool_mem);
}

void bed_apply(struct bed *b)
{
    struct bt_router_refusal why = {0};
    if (!bt_router_apply(b->r, b->now, &b->config, &why)) {
        fail_msg("refused: %s %s", why.field, why.reason);
    }
}

void bed_use_keys(struct bed *b)
{
    for (uint8_t i = 0; i < 2; i++) {
        b->keys.key[i].id = (uint8_t)(i + 1u);
        memset(b->keys.key[i].bytes, 0x40 + i, sizeof b->keys.key[i].bytes);
    }
    b->config.keys = &b->keys;
}

static struct bt_pkt *packet(struct bed *b, const struct bt_addr *from, const struct bt_addr *to, const uint8_t *bytes,
                             size_t len)
{
    struct bt_pkt *pkt = bt_pool_get(b->pool);
    assert_non_null(pkt);
    uint8_t *at = bt_pkt_append(pkt, (uint32_t)len);
    assert_non_null(at);
    memcpy(at, bytes, len);
    pkt->src = *from;
    pkt->dst = *to;
    pkt->t_rx_ns = b->now - b->lay_ns;
    return pkt;
}

size_t bed_feedback_make(struct bed *b, uint32_t w, const struct bed_report *report, uint8_t *bytes)
{
    struct bt_r2p2_hdr hdr = {
        .type = BT_FEEDBACK, .first = true, .last = true, .ext = true, .count_or_index = 1, .req_id = report->req_id};
    const struct bt_addr *from = report->from != NULL ? report->from : &b->members[w];
    bool tagged = b->config.keys != NULL && !report->untagged;
    const struct bt_key *key = report->key != NULL ? report->key : &b->keys.key[0];
    if (tagged) {
        hdr.opt.present = BT_HAS_TAG;
        hdr.opt.key_id = key->id;
    }
    size_t head = bt_r2p2_encode(bytes, 64, &hdr);
    struct bt_feedback fb = {.version = report->signal != 0 ? 3 : 1,
                             .signal = report->signal,
                             .flags = report->flags,
                             .req_id = report->req_id,
                             .client = b->client,
                             .n = (uint16_t)report->n,
                             .incarnation = report->incarnation,
                             .received = report->received,
                             .served = report->served};
    size_t len = head + bt_feedback_encode(bytes + head, 64, &fb);
    if (tagged) {
        assert_true(bt_tag_sign(bytes, len, &hdr, key, from, &b->feedback));
    }
    return len;
}

void bed_feedback_bytes(struct bed *b, const struct bt_addr *from, const uint8_t *bytes, size_t len)
{
    bt_router_feedback(b->r, b->now, packet(b, from, &b->feedback, bytes, len), &b->out);
}

void bed_feedback(struct bed *b, uint32_t w, const struct bed_report *report)
{
    uint8_t bytes[128];
    size_t len = bed_feedback_make(b, w, report, bytes);
    bed_feedback_bytes(b, report->from != NULL ? report->from : &b->members[w], bytes, len);
}

void bed_legacy(struct bed *b, uint32_t w, uint16_t req_id)
{
    uint8_t bytes[16] = {0xcc, 0, BT_FEEDBACK << 4};
    struct bt_feedback fb = {.version = 0, .flags = BT_FEEDBACK_PAIR, .req_id = req_id, .client = b->client};
    assert_int_equal(bt_feedback_encode(bytes + 8, 8, &fb), 8);
    bed_feedback_bytes(b, &b->members[w], bytes, sizeof bytes);
}

void bed_join(struct bed *b, uint32_t w, uint32_t n)
{
    bed_feedback(b, w, &(struct bed_report){.n = n, .incarnation = 1, .flags = BT_FEEDBACK_JOIN});
}

void bed_join_all(struct bed *b, uint32_t n)
{
    for (uint32_t w = 0; w < b->config.members_n; w++) {
        bed_join(b, w, n);
    }
}

void bed_request_bytes(struct bed *b, const struct bt_addr *from, const uint8_t *bytes, size_t len)
{
    bt_router_request(b->r, b->now, packet(b, from, &b->requests, bytes, len), &b->out);
}

void bed_request_as(struct bed *b, struct bt_r2p2_hdr hdr, uint32_t body)
{
    uint8_t bytes[1600];
    hdr.type = BT_REQUEST;
    hdr.first = hdr.last = hdr.ext = true;
    hdr.count_or_index = 1;
    size_t head = bt_r2p2_encode(bytes, sizeof bytes, &hdr);
    memset(bytes + head, 0x5a, body);
    bed_request_bytes(b, &b->client, bytes, head + body);
}

void bed_request(struct bed *b, uint16_t req_id, uint8_t policy, uint32_t body)
{
    bed_request_as(b, (struct bt_r2p2_hdr){.policy = policy, .req_id = req_id}, body);
}

void bed_send(struct bed *b, uint16_t req_id)
{
    bed_request(b, req_id, BT_POLICY_UNRESTRICTED, 8);
}

void bed_tick(struct bed *b, uint64_t step)
{
    b->now += step;
    bt_router_tick(b->r, b->now, &b->out);
}

struct bt_pkt *bed_packet(struct bed *b)
{
    return bt_txq_pop(&b->out);
}

static int worker_of(const struct bed *b, const struct bt_addr *addr)
{
    for (uint32_t w = 0; w < BED_WORKERS; w++) {
        if (bt_addr_eq(&b->members[w], addr)) {
            return (int)w;
        }
    }
    return -1;
}

int bed_take(struct bed *b)
{
    struct bt_pkt *pkt = bed_packet(b);
    if (pkt == NULL) {
        return -1;
    }
    int w = worker_of(b, &pkt->dst);
    bt_pool_put(b->pool, pkt);
    return w;
}

bool bed_take_drop(struct bed *b, uint16_t req_id)
{
    struct bt_pkt *pkt = bed_packet(b);
    if (pkt == NULL) {
        return false;
    }
    struct bt_r2p2_hdr hdr;
    bool ok = bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_CLIENT, &hdr) == BT_M_OK && hdr.type == BT_DROP &&
              hdr.req_id == req_id && hdr.policy == 1 && hdr.payload_len == 4 && memcmp(hdr.payload, "DROP", 4) == 0 &&
              bt_addr_eq(&pkt->dst, &b->client) && bt_addr_eq(&pkt->src, &b->requests) && pkt->tx_as_src == 0 &&
              pkt->local == BT_ROUTER_PORT_REQUEST;
    bt_pool_put(b->pool, pkt);
    return ok;
}

void bed_discard(struct bed *b)
{
    struct bt_pkt *pkt;
    while ((pkt = bed_packet(b)) != NULL) {
        bt_pool_put(b->pool, pkt);
    }
}

uint64_t bed_counter(const struct bed *b, enum bt_router_counter c)
{
    struct bt_router_stats stats;
    bt_router_read_stats(b->r, b->now, &stats);
    return stats.counter[c];
}

uint64_t bed_malformed(const struct bed *b, enum bt_mcase m)
{
    struct bt_router_stats stats;
    bt_router_read_stats(b->r, b->now, &stats);
    return stats.malformed[m];
}

uint64_t bed_held(const struct bed *b)
{
    struct bt_router_stats stats;
    bt_router_read_stats(b->r, b->now, &stats);
    return stats.held;
}

uint64_t bed_pairs(const struct bed *b)
{
    struct bt_router_stats stats;
    bt_router_read_stats(b->r, b->now, &stats);
    return stats.pairs;
}

struct bt_router_member_stats bed_row(const struct bed *b, uint32_t w)
{
    struct bt_router_member_stats row;
    assert_true(bt_router_member(b->r, b->now, w, &row));
    return row;
}

uint32_t bed_outstanding(const struct bed *b, uint32_t w)
{
    return bed_row(b, w).outstanding;
}
