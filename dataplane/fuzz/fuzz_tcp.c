// SPDX-License-Identifier: Apache-2.0
// TCP past the kernel: segments of any kind at a stack that listens, with and without windows of tokens, and the option
// that asks for them. lwIP's own checks abort, nothing outside of a packet is read, memory has its bounds, and every
// packet comes back.
#include "input.h"

#include "tcp/lwip/sizes.h"
#include "tcp/stack.h"
#include "wire/checksum.h"
#include "wire/tcp_flow.h"

extern const struct bt_tcp_stack bt_tcp_copy;

enum { BUFFERS = 2048, CONNS = 32, PEER = 0x0a000002 };
#define MS UINT64_C(1000000)

static struct {
    struct bt_pool_fixed pool;
    struct bt_txq out;
    struct {
        struct bt_tcp_conn *c;
        bool used, ended;
        uint32_t owed;
    } conn[CONNS];
    uint32_t their_next, our_next; // numbers of the last segment that left, so that some of ours fit
    uint64_t now;
} w;

static void *on_accepted(void *arg, struct bt_tcp_conn *c, const struct bt_addr *peer)
{
    (void)arg;
    (void)peer;
    for (unsigned i = 0; i < CONNS; i++) {
        if (!w.conn[i].used) {
            w.conn[i].used = true;
            w.conn[i].ended = false;
            w.conn[i].owed = 0;
            w.conn[i].c = c;
            return &w.conn[i];
        }
    }
    return NULL;
}

static unsigned of(const void *own)
{
    return (unsigned)((const char *)own - (const char *)w.conn) / sizeof w.conn[0];
}

static void on_received(void *own, const uint8_t *bytes, uint32_t n)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += bytes[i];
    }
    w.conn[of(own)].owed += n + (sum & 0);
    CHECK(w.conn[of(own)].owed <= 65535 + 1);
}

static void on_room(void *own)
{
    CHECK(w.conn[of(own)].used);
}

static void on_ended(void *own)
{
    w.conn[of(own)].ended = true;
}

static void on_gone(void *own)
{
    w.conn[of(own)].used = false;
}

static uint16_t on_signal(void *arg, void *own)
{
    (void)arg;
    return own != NULL ? 7 : 1;
}

static void drain(void)
{
    struct bt_pkt *p;
    while ((p = bt_txq_pop(&w.out)) != NULL) {
        CHECK(p->len >= 40 && p->len <= 1500);
        w.their_next = bt_get32(p->data + 28);
        w.our_next = bt_get32(p->data + 24) + 1;
        bt_pool_put(&w.pool.pool, p);
    }
}

/* A segment from a few bytes of the input; the rest of it is options and data. */
static void segment(const uint8_t *in, size_t n)
{
    struct bt_pkt *p = bt_pool_get(&w.pool.pool);
    uint32_t more = n > 8 ? (uint32_t)n - 8 : 0;
    if (p == NULL || n < 8) {
        if (p != NULL) {
            bt_pool_put(&w.pool.pool, p);
        }
        return;
    }
    uint8_t *at = bt_pkt_append(p, 40 + more);
    memset(at, 0, 40);
    at[0] = 0x45;
    bt_put16(at + 2, (uint16_t)(40 + more));
    at[8] = 64;
    at[9] = 6;
    bt_put32(at + 12, PEER);
    bt_put32(at + 16, PEER - 1);
    bt_put16(at + 20, (uint16_t)(1000 + in[0] % 8));
    bt_put16(at + 22, (uint16_t)(7000 + in[0] / 128));
    bt_put32(at + 24, (in[1] & 1) != 0 ? w.their_next + (uint32_t)(int8_t)in[2] : (uint32_t)in[2] << 24);
    bt_put32(at + 28, (in[1] & 2) != 0 ? w.our_next + (uint32_t)(int8_t)in[3] : (uint32_t)in[3] << 24);
    at[32] = (uint8_t)(in[4] & 0xf0);
    at[33] = in[5];
    bt_put16(at + 34, (uint16_t)(in[6] << 8 | in[7]));
    memcpy(at + 40, in + 8, more);
    p->offload = (in[1] & 4) == 0 ? BT_PKT_RX_L4_OK : 0;
    bt_tcp_copy.rx(p, w.now);
}

static void act(uint8_t what)
{
    unsigned i = what % CONNS;
    if (!w.conn[i].used) {
        return;
    }
    if (what < 96) {
        (void)bt_tcp_copy.write(w.conn[i].c, (const uint8_t *)"an answer", 9);
    } else if (what < 160) {
        bt_tcp_copy.taken(w.conn[i].c, w.conn[i].owed);
        w.conn[i].owed = 0;
    } else if (what < 200) {
        w.conn[i].used = false;
        bt_tcp_copy.end(w.conn[i].c);
    } else if (what < 216) {
        w.conn[i].used = false;
        bt_tcp_copy.reset(w.conn[i].c);
    }
}

static void open_stack(bool tokens)
{
    static void *slab;
    char why[100];
    slab = slab != NULL ? slab : malloc(bt_pool_fixed_bytes(BUFFERS));
    CHECK(slab != NULL);
    memset(w.conn, 0, sizeof w.conn);
    bt_pool_fixed_init(&w.pool, slab, BUFFERS);
    bt_txq_init(&w.out);
    struct bt_tcp_setup setup = {.local = bt_addr_v4u(PEER - 1, 7000),
                                 .mtu = 1500,
                                 .tx_local = 1,
                                 .half_open = 8,
                                 .pool = &w.pool.pool,
                                 .out = &w.out,
                                 .owner = {.accepted = on_accepted,
                                           .received = on_received,
                                           .room = on_room,
                                           .ended = on_ended,
                                           .gone = on_gone,
                                           .signal = tokens ? on_signal : NULL}};
    w.now += 1000 * MS;
    CHECK(bt_tcp_copy.open(&setup, w.now, why, sizeof why));
}

static void option_alone(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size != 0 ? size : 1); // of its size, for AddressSanitizer
    CHECK(exact != NULL);
    memcpy(exact, data, size);
    (void)bt_tcp_flow_read(exact, (uint32_t)size);
    (void)bt_tcp_flow_scaled(exact, (uint32_t)size);
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 4096) {
        return 0;
    }
    option_alone(data, size < 40 ? size : 40);
    open_stack((data[0] & 1) != 0);
    for (size_t at = 1; at + 2 < size;) {
        size_t n = data[at] % 64, left = size - at - 2;
        n = n < left ? n : left;
        act(data[at + 1]);
        segment(data + at + 2, n);
        bt_tcp_copy.flush(w.now);
        w.now += data[at + 1] * MS;
        bt_tcp_copy.tick(w.now);
        drain();
        at += 2 + n;
    }
    bt_tcp_copy.close();
    drain();
    CHECK(w.pool.left == BUFFERS);
    return 0;
}
