// SPDX-License-Identifier: Apache-2.0
// The client under bytes that drive packets, requests and time. Every request
// ends exactly once and no packet leaks, whatever arrives.
#include "input.h"
#include "rpc/client.h"
#include "wire/r2p2.h"

#define PACKETS 512
#define CALLS   1024
#define US      1000ull

struct world {
    struct bt_client *client;
    struct bt_pool_fixed pool;
    struct bt_txq txq;
    uint64_t now;
    int calls;
    uint8_t ends[CALLS];
    uint16_t ids[16]; // of the last requests
    unsigned newest;
};

static struct world w;
static _Alignas(64) uint8_t pool_mem[PACKETS * (sizeof(struct bt_pkt) + BT_PKT_BUFFER)];
static void *client_mem;

static void ended(uint64_t cookie)
{
    CHECK(cookie < (uint64_t)w.calls);
    CHECK(++w.ends[cookie] == 1);
}

static void on_success(void *arg, uint64_t cookie, struct bt_msg *reply, const struct bt_reply_info *info)
{
    (void)arg;
    (void)info;
    uint32_t sum = 0, packets = 0;
    for (struct bt_pkt *p = reply->head; p; p = p->next, packets++)
        sum += p->len;
    CHECK(sum == reply->len && packets == reply->packets);
    ended(cookie);
    bt_client_done(w.client, reply);
}

static void on_timeout(void *arg, uint64_t cookie)
{
    (void)arg;
    ended(cookie);
}

static void on_error(void *arg, uint64_t cookie, int code)
{
    (void)arg;
    CHECK(code == BT_RPC_DROPPED || code == BT_RPC_REPLY_INCOMPLETE || code == BT_RPC_CANCELLED);
    ended(cookie);
}

static void drain(void)
{
    for (struct bt_pkt *p; (p = bt_txq_pop(&w.txq));) {
        struct bt_r2p2_hdr h;
        CHECK(bt_r2p2_decode(p->data, p->len, BT_ROLE_SERVER, &h) == BT_M_OK); // we send only what is legal
        if (h.type == BT_REQUEST && h.first)
            w.ids[w.newest++ & 15] = h.req_id;
        bt_pool_put(&w.pool.pool, p);
    }
}

static void send_request(struct input *in)
{
    static uint8_t body[140000];
    uint32_t len = in_length(in) * (in8(in) & 15 ? 1u : 80u);
    uint8_t how = in8(in);
    struct iovec iov = {body, len < sizeof body ? len : sizeof body};
    struct bt_request rq = {.iov = &iov, .iovcnt = 1, .dst = bt_addr_v4u(0x0a000002, 8000)};
    rq.timeout_ns = (1 + (uint64_t)in8(in)) * 100 * US;
    rq.cookie = (uint64_t)w.calls;
    rq.policy = how & 3;
    rq.with_class = how & 4;
    rq.with_trace = how & 8;
    if (w.calls < CALLS && bt_client_send(w.client, w.now, &rq, &w.txq) >= 0)
        w.calls++;
}

static void receive(struct input *in, int raw)
{
    static const uint32_t sources[] = {0x0a000002, 0x0a000002, 0x0a000003, 0xe0000001};
    struct bt_pkt *p = bt_pool_get(&w.pool.pool);
    if (!p)
        return;
    uint8_t pick = in8(in);
    p->src = bt_addr_v4u(sources[pick & 3], 8000);
    if (raw)
        in_raw(in, p, in8(in));
    else
        in_packet(in, p, (uint16_t)(w.ids[(pick >> 2) & 15] + (pick >> 6 == 3)));
    bt_client_rx(w.client, w.now, p, &w.txq);
}

static void start(uint8_t ext)
{
    struct bt_client_cfg cfg = {.local = bt_addr_v4u(0x0a000001, 40000),
                                .mtu = 1500,
                                .max_pending = 24,
                                .max_assemblies = 4,
                                .max_message = 128 * 1024,
                                .extensions = ext & 1,
                                .timers = bt_rpc_timers_for(BT_DEVICE_SRIOV),
                                .seed = 3};
    memset(&w, 0, sizeof w);
    w.now = 1000000 * US;
    bt_txq_init(&w.txq);
    cfg.pool = bt_pool_fixed_init(&w.pool, pool_mem, PACKETS);
    cfg.ops = (struct bt_client_ops){on_success, on_timeout, on_error, NULL};
    size_t bytes = bt_client_bytes(&cfg);
    if (!client_mem)
        client_mem = aligned_alloc(64, bytes);
    w.client = bt_client_init(&cfg, client_mem, bytes, w.now);
    CHECK(w.client);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    start(in8(&in));
    while (in.left) {
        switch (in8(&in) & 7) {
        case 0:
            receive(&in, 1);
            break;
        case 1:
            w.now += (uint64_t)in8(&in) * 50 * US;
            break;
        case 2:
        case 3:
            send_request(&in);
            break;
        default:
            receive(&in, 0);
            break;
        }
        bt_client_tick(w.client, w.now, &w.txq);
        drain();
        CHECK(w.pool.left <= PACKETS);
    }
    while (bt_client_next(w.client) != UINT64_MAX) {
        uint64_t next = bt_client_next(w.client);
        CHECK(next > w.now || next + 512 > w.now);
        w.now = next > w.now ? next : w.now + 256;
        bt_client_tick(w.client, w.now, &w.txq);
        drain();
    }
    for (int i = 0; i < w.calls; i++)
        CHECK(w.ends[i] == 1);
    CHECK(bt_client_pending(w.client) == 0 && w.pool.left == PACKETS);
    return 0;
}
