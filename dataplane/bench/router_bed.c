// SPDX-License-Identifier: Apache-2.0
// Builds the router, and packets as clients and workers build them (see router_bed.h).
#include "router_bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKER_NET 0x0a010000u // 10.1.0.0, four workers per address

static void stop(const char *why)
{
    fprintf(stderr, "router_bed: %s\n", why);
    exit(1);
}

static void *need(size_t bytes)
{
    void *mem = aligned_alloc(64, (bytes + 63u) & ~(size_t)63u);
    if (mem == NULL) {
        stop("out of memory");
    }
    return mem;
}

uint32_t router_bed_worker(const struct bt_addr *addr)
{
    return ((uint32_t)addr->ip[14] << 8 | addr->ip[15]) * 4u + (addr->port - 8000u);
}

static struct bt_pkt *packet(struct router_bed *b, const struct bt_addr *from, const struct bt_addr *to, uint64_t now)
{
    struct bt_pkt *pkt = bt_pool_get(b->pool);
    if (pkt == NULL) {
        stop("no packet left");
    }
    pkt->src = *from;
    pkt->dst = *to;
    pkt->t_rx_ns = now;
    return pkt;
}

struct bt_pkt *router_bed_request(struct router_bed *b, const struct bt_addr *client, uint16_t req_id, uint64_t now)
{
    struct bt_pkt *pkt = packet(b, client, &b->requests, now);
    struct bt_r2p2_hdr hdr = {
        .type = BT_REQUEST, .first = true, .last = true, .ext = true, .req_id = req_id, .count_or_index = 1};
    bt_r2p2_encode(bt_pkt_append(pkt, BT_R2P2_HEADER), BT_R2P2_HEADER, &hdr);
    memset(bt_pkt_append(pkt, 8), 'q', 8);
    return pkt;
}

struct bt_pkt *router_bed_feedback(struct router_bed *b, uint32_t w, uint8_t flags, const struct bt_addr *client,
                                   uint16_t req_id, uint64_t now)
{
    struct bt_pkt *pkt = packet(b, &b->workers[w], &b->feedback, now);
    const struct bt_key *key = bt_keyring_signer(&b->keys);
    struct bt_r2p2_hdr hdr = {.type = BT_FEEDBACK, .first = true, .last = true, .ext = true, .count_or_index = 1};
    if (key != NULL) {
        hdr.opt.present = BT_HAS_TAG;
        hdr.opt.key_id = key->id;
    }
    struct bt_feedback fb = {.version = 1,
                             .flags = flags,
                             .n = b->n,
                             .incarnation = 1,
                             .req_id = req_id,
                             .received = b->received[w],
                             .served = b->served[w]};
    if (client != NULL) {
        fb.client = *client;
    }
    uint8_t *at = bt_pkt_append(pkt, (uint32_t)bt_r2p2_header_size(&hdr));
    bt_r2p2_encode(at, BT_R2P2_HEADER_MAX, &hdr);
    bt_feedback_encode(bt_pkt_append(pkt, BT_FEEDBACK_V1_SIZE), BT_FEEDBACK_V1_SIZE, &fb);
    if (key != NULL) {
        bt_tag_sign(pkt->data, pkt->len, &hdr, key, &pkt->src, &pkt->dst);
    }
    return pkt;
}

static void configure(struct router_bed *b, uint32_t k, uint64_t now)
{
    bool keyed = !bt_keyring_empty(&b->keys);
    struct bt_router_config c = {.depth = b->n,
                                 .forwarding = keyed ? BT_FORWARD_ENCAPSULATED : BT_FORWARD_TRANSPARENT,
                                 .central_limit = 65536,
                                 .max_queue_ns = SECOND,
                                 .request_timeout_ns = 10 * SECOND,
                                 .max_payload = bt_r2p2_datagram_max(1500, true),
                                 .keys = &b->keys,
                                 .members = b->workers,
                                 .members_n = k};
    if (!bt_router_apply(b->router, now, &c, NULL)) {
        stop("the configuration was refused");
    }
}

static void prepare(struct router_bed *b, uint32_t k, uint32_t n, bool keyed)
{
    memset(b, 0, sizeof *b);
    b->n = (uint16_t)n;
    b->requests = bt_addr_v4u(0x0a000001, 8000);
    b->feedback = bt_addr_v4u(0x0a000001, 9000);
    b->keys.key[0].id = keyed ? 1 : 0;
    b->pool = bt_pool_fixed_init(&b->fixed, need(bt_pool_fixed_bytes(BED_PACKETS)), BED_PACKETS);
    for (uint32_t w = 0; w < k; w++) {
        b->workers[w] = bt_addr_v4u(WORKER_NET + w / 4u, (uint16_t)(8000 + w % 4u));
    }
}

static void build(struct router_bed *b, uint32_t threads, uint64_t now)
{
    struct bt_router_setup setup = {
        .threads = threads, .pool = b->pool, .seed = 1, .request_addr = b->requests, .feedback_addr = b->feedback};
    size_t bytes = bt_router_bytes(&setup);
    b->router = bt_router_init(need(bytes), bytes, &setup, now);
    if (b->router == NULL) {
        stop("the router was not built");
    }
}

static void join_all(struct router_bed *b, uint32_t k, uint64_t now)
{
    struct bt_txq out;
    bt_txq_init(&out);
    for (uint32_t w = 0; w < k; w++) {
        bt_router_feedback(b->router, now, router_bed_feedback(b, w, BT_FEEDBACK_JOIN, NULL, 0, now), &out);
        bt_router_requests(b->router, NULL, 0, &out);
    }
}

void router_bed_open(struct router_bed *b, uint32_t k, uint32_t n, struct router_bed_form form, uint64_t now)
{
    prepare(b, k, n, form.keyed);
    build(b, form.threads, now);
    configure(b, k, now);
    join_all(b, k, now);
}
