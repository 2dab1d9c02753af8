// SPDX-License-Identifier: Apache-2.0
// The client under bytes that drive packets, requests, time and shortage. After every step its counters agree with
// our own, its timers make progress and its tables stay within their bounds; in the end no packet is left.
#include "mutate.h"
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
    uint32_t open;        // started and not ended, by our own count
    uint64_t taken;       // packets given to it
    struct bt_pkt *hoard; // packets taken away to starve it
    uint8_t last[1600];   // the last packet it was given, to be changed and given again
    uint32_t last_n;
};

static struct world w;
static _Alignas(64) uint8_t pool_mem[PACKETS * (sizeof(struct bt_pkt) + BT_PKT_BUFFER)];
static void *client_mem;

static void ended(uint64_t cookie)
{
    CHECK(cookie < (uint64_t)w.calls);
    CHECK(++w.ends[cookie] == 1);
    CHECK(w.open-- > 0);
}

static void on_success(void *arg, uint64_t cookie, struct bt_msg *reply, const struct bt_reply_info *info)
{
    (void)arg;
    (void)info;
    uint32_t sum = 0, packets = 0;
    for (struct bt_pkt *p = reply->head; p; p = p->next, packets++) {
        sum += p->len;
    }
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
        if (h.type == BT_REQUEST && h.first) {
            w.ids[w.newest++ & 15] = h.req_id;
        }
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
    uint64_t retry;
    bool tries = (how & 16) != 0; // under flow control (F-40)
    int id = w.calls == CALLS ? -1
             : tries          ? bt_client_try_send(w.client, w.now, &rq, &w.txq, &retry)
                              : bt_client_send(w.client, w.now, &rq, &w.txq);
    CHECK(w.calls == CALLS || !tries || (id == BT_RPC_AGAIN) == (retry != 0));
    if (id >= 0) {
        w.calls++;
        w.open++;
    }
}

static void receive(struct input *in, int raw)
{
    static const uint32_t sources[] = {0x0a000002, 0x0a000002, 0x0a000003, 0xe0000001};
    struct bt_pkt *p = bt_pool_get(&w.pool.pool);
    if (!p) {
        return;
    }
    uint8_t pick = in8(in);
    p->src = bt_addr_v4u(sources[pick & 3], 8000);
    if (raw) {
        in_raw(in, p, in8(in));
    } else {
        in_packet(in, p, (uint16_t)(w.ids[(pick >> 2) & 15] + (pick >> 6 == 3)));
    }
    w.last_n = p->len < sizeof w.last ? p->len : 0;
    memcpy(w.last, p->data, w.last_n);
    w.taken++;
    bt_client_rx(w.client, w.now, p, &w.txq);
}

// The last packet once more, changed.
static void receive_changed(struct input *in)
{
    struct bt_pkt *p = bt_pool_get(&w.pool.pool);
    if (!p) {
        return;
    }
    uint32_t n = mutate(in, w.last, w.last_n, sizeof w.last);
    p->src = bt_addr_v4u(0x0a000002, 8000);
    memcpy(bt_pkt_append(p, n), w.last, n);
    w.last_n = n;
    w.taken++;
    bt_client_rx(w.client, w.now, p, &w.txq);
}

static void starve(uint8_t how)
{
    if (how & 1) {
        bt_pool_put_chain(&w.pool.pool, w.hoard);
        w.hoard = NULL;
    }
    while (!(how & 1) && w.pool.left > how >> 4) {
        struct bt_pkt *p = bt_pool_get(&w.pool.pool);
        p->next = w.hoard;
        w.hoard = p;
    }
}

// After every step: each started request is open or ended, each packet has its one case, timers lie ahead.
static void check(void)
{
    const uint64_t *n = bt_client_counters(w.client);
    uint64_t cases = 0;
    for (int m = 0; m < BT_M_COUNT; m++) {
        cases += n[m];
    }
    /* early parts thrown out when the count becomes known are counted once more, as M-9 or M-10 */
    CHECK(cases >= w.taken && cases - w.taken <= n[BT_M9] + n[BT_M10]);
    CHECK(bt_client_pending(w.client) == w.open && w.open <= 24);
    CHECK(n[BT_CLIENT_STARTED] == w.open + n[BT_CLIENT_SUCCEEDED] + n[BT_CLIENT_TIMED_OUT] + n[BT_CLIENT_DROPPED] +
                                      n[BT_CLIENT_INCOMPLETE] + n[BT_CLIENT_CANCELLED]);
    CHECK((bt_client_next(w.client) == UINT64_MAX) == (w.open == 0)); // every open request has its deadline
    CHECK(bt_client_next(w.client) > w.now - 512);
    CHECK(w.pool.left <= PACKETS);
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
    cfg.flow_targets = 2;
    cfg.ops = (struct bt_client_ops){on_success, on_timeout, on_error, NULL};
    size_t bytes = bt_client_bytes(&cfg);
    if (!client_mem) {
        client_mem = aligned_alloc(64, bytes);
    }
    w.client = bt_client_init(&cfg, client_mem, bytes, w.now);
    CHECK(w.client);
}

static void step(struct input *in)
{
    uint8_t verb = in8(in);
    switch (verb & 7) {
    case 0:
        receive(in, 1);
        break;
    case 1:
        w.now += (uint64_t)in8(in) * ((verb & 0xf0) == 0xf0 ? 40000 : 50) * US; // a leap now and then
        break;
    case 2:
    case 3:
        send_request(in);
        break;
    case 4:
        receive_changed(in);
        break;
    case 5:
        (verb & 0xe0) == 0xe0 ? starve(in8(in)) : receive(in, 0);
        break;
    default:
        receive(in, 0);
        break;
    }
    bt_client_tick(w.client, w.now, &w.txq);
    drain();
    check();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    uint8_t how = in8(&in);
    start(how);
    while (in.left) {
        step(&in);
    }
    starve(1);
    if ((how & 6) == 6) { // closed in the middle of everything
        bt_client_close(w.client, w.now);
        CHECK(w.open == 0 && w.pool.left == PACKETS);
    }
    while (bt_client_next(w.client) != UINT64_MAX) {
        uint64_t next = bt_client_next(w.client);
        CHECK(next > w.now || next + 512 > w.now);
        w.now = next > w.now ? next : w.now + 256;
        bt_client_tick(w.client, w.now, &w.txq);
        drain();
    }
    for (int i = 0; i < w.calls; i++) {
        CHECK(w.ends[i] == 1);
    }
    CHECK(bt_client_pending(w.client) == 0 && w.pool.left == PACKETS);
    return 0;
}
