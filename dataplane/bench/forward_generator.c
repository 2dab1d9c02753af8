// SPDX-License-Identifier: Apache-2.0
// The generator: clients and workers at once. Every request that comes out of the router is served in no time; its
// FEEDBACK and the next request go back in. Towards the plain forwarder it does as much for every packet: it reads
// where the frame went and writes a new one, so that the subject finds each packet's bytes where a device would have
// put them, outside its own cache.
#include <string.h>

#include "base/bytes.h"
#include "forward.h"
#include "wire/feedback.h"
#include "wire/frame.h"
#include "wire/r2p2.h"

enum { HEADS = BT_ETHER_HEAD + BT_IP4_HEAD + BT_UDP_HEAD, FRAME_MAX = 256, IPS = 4, FIRST_IP = 10, FIRST_PORT = 8000 };

const uint8_t forward_generator_mac[6] = {2, 0, 0, 0, 0, 1};

struct bt_addr forward_request_addr(void)
{
    return bt_addr_v4u(0x0a630001, 8000);
}

struct bt_addr forward_feedback_addr(void)
{
    return bt_addr_v4u(0x0a630001, 9000);
}

struct bt_addr forward_worker(uint32_t w)
{
    return bt_addr_v4u(0x0a630000 + FIRST_IP + w % IPS, (uint16_t)(FIRST_PORT + w / IPS));
}

struct bt_addr forward_client(void)
{
    return bt_addr_v4u(0x0a630064, 33000);
}

struct frame {
    uint8_t bytes[FRAME_MAX];
    uint32_t len;
};

struct worker {
    struct frame feedback;
    uint64_t served;
};

struct forward_generator {
    uint16_t port;
    struct rte_mempool *buffers;
    struct frame request;
    struct worker worker[FORWARD_WORKERS];
    struct rte_mbuf *out[2 * FORWARD_BATCH];
    unsigned out_n;
    bool rpcs;
    uint16_t req_id;
    uint64_t count;
};

static void write_heads(struct frame *f, const uint8_t to[6], struct bt_addr src, struct bt_addr dst, uint32_t payload)
{
    uint8_t *ip = f->bytes + BT_ETHER_HEAD;
    bt_ether_write(f->bytes, to, forward_generator_mac, BT_ETHER_IP4);
    bt_ip4_write(ip, &src, &dst, BT_PROTO_UDP, BT_TTL, BT_UDP_HEAD + payload);
    bt_udp_write(ip + BT_IP4_HEAD, &src, &dst, payload, BT_UDP_SUM_NONE); // from memory to memory
    f->len = HEADS + payload;
}

static void make_request(struct forward_generator *g, const uint8_t to[6])
{
    struct bt_r2p2_hdr h = {.type = BT_REQUEST, .first = true, .last = true, .ext = true, .count_or_index = 1};
    size_t head = bt_r2p2_encode(g->request.bytes + HEADS, FRAME_MAX - HEADS, &h);
    write_heads(&g->request, to, forward_client(), forward_request_addr(), (uint32_t)head + FORWARD_PAYLOAD);
}

static void write_feedback(struct worker *w, uint8_t flags, uint16_t req_id)
{
    struct bt_feedback fb = {.version = 1,
                             .flags = flags,
                             .req_id = req_id,
                             .client = forward_client(),
                             .n = FORWARD_DEPTH,
                             .incarnation = 1,
                             .received = w->served,
                             .served = w->served};
    bt_feedback_encode(w->feedback.bytes + HEADS + BT_R2P2_HEADER, BT_FEEDBACK_V1_SIZE, &fb);
}

static void make_feedback(struct forward_generator *g, uint32_t w, const uint8_t to[6])
{
    struct bt_r2p2_hdr h = {.type = BT_FEEDBACK, .first = true, .last = true, .ext = true, .count_or_index = 1};
    struct frame *f = &g->worker[w].feedback;
    bt_r2p2_encode(f->bytes + HEADS, FRAME_MAX - HEADS, &h);
    write_heads(f, to, forward_worker(w), forward_feedback_addr(), BT_R2P2_HEADER + BT_FEEDBACK_V1_SIZE);
    write_feedback(&g->worker[w], BT_FEEDBACK_JOIN, 0);
}

static void flush(struct forward_generator *g)
{
    for (unsigned at = 0, tries = 0; at < g->out_n && tries < 1000000; tries++) {
        at += rte_eth_tx_burst(g->port, 0, g->out + at, (uint16_t)(g->out_n - at));
    }
    g->out_n = 0;
}

static void queue(struct forward_generator *g, struct rte_mbuf *m)
{
    g->out[g->out_n++] = m;
    if (g->out_n == FORWARD_BATCH) {
        flush(g);
    }
}

// Puts a frame into a buffer, a new one when none is given.
static void put(struct forward_generator *g, struct rte_mbuf *m, const struct frame *f)
{
    if (m == NULL && (m = rte_pktmbuf_alloc(g->buffers)) == NULL) {
        return;
    }
    rte_pktmbuf_reset(m);
    memcpy(rte_pktmbuf_mtod(m, void *), f->bytes, f->len);
    m->data_len = (uint16_t)f->len;
    m->pkt_len = f->len;
    queue(g, m);
}

static void next_request(struct forward_generator *g, struct rte_mbuf *m)
{
    bt_put16(g->request.bytes + HEADS + 4, g->req_id++);
    put(g, m, &g->request);
}

static bool is_request(const struct rte_mbuf *m)
{
    const uint8_t *p = rte_pktmbuf_mtod(m, const uint8_t *);
    return m->data_len > HEADS + BT_R2P2_HEADER && bt_get16(p + 12) == BT_ETHER_IP4;
}

static void send_again(struct forward_generator *g, struct rte_mbuf *m)
{
    if (!is_request(m)) {
        rte_pktmbuf_free(m);
        return;
    }
    g->count++;
    next_request(g, m);
}

// A request that the router gave to a worker: served at once. Anything else the router's port says is let go.
static void serve(struct forward_generator *g, struct rte_mbuf *m)
{
    const uint8_t *p = rte_pktmbuf_mtod(m, const uint8_t *);
    uint32_t w = FORWARD_WORKERS;
    if (is_request(m)) {
        w = (uint32_t)(p[33] - FIRST_IP) + IPS * ((uint32_t)bt_get16(p + 36) - FIRST_PORT);
    }
    if (w >= FORWARD_WORKERS) {
        rte_pktmbuf_free(m);
        return;
    }
    g->count++;
    g->worker[w].served++;
    write_feedback(&g->worker[w], BT_FEEDBACK_PAIR, bt_get16(p + HEADS + 4));
    put(g, m, &g->worker[w].feedback);
    next_request(g, NULL);
}

unsigned forward_generator_turn(struct forward_generator *g)
{
    struct rte_mbuf *in[FORWARD_BATCH];
    unsigned n = rte_eth_rx_burst(g->port, 0, in, FORWARD_BATCH);
    for (unsigned i = 0; i < n; i++) {
        if (g->rpcs) {
            serve(g, in[i]);
        } else {
            send_again(g, in[i]);
        }
    }
    flush(g);
    return n;
}

struct forward_generator *forward_generator_begin(uint16_t port, struct rte_mempool *buffers, const uint8_t to[6],
                                                  bool rpcs)
{
    static struct forward_generator g;
    g = (struct forward_generator){.port = port, .buffers = buffers, .rpcs = rpcs};
    make_request(&g, to);
    for (uint32_t w = 0; rpcs && w < FORWARD_WORKERS; w++) {
        make_feedback(&g, w, to);
        put(&g, NULL, &g.worker[w].feedback);
    }
    for (unsigned i = 0; i < (rpcs ? FORWARD_PACKETS / 2 : FORWARD_PACKETS); i++) {
        next_request(&g, NULL);
    }
    flush(&g);
    return &g;
}

uint64_t forward_generator_count(const struct forward_generator *g)
{
    return g->count;
}
