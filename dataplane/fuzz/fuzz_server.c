// SPDX-License-Identifier: Apache-2.0
// The server under bytes that drive packets, the application, time and shortage. After every step it owes its routers
// no more than it has at hand, its timers lie ahead and its tables stay within their bounds; in the end every
// request accepted was served once and no packet is left.
#include "mutate.h"
#include "rpc/server.h"
#include "wire/feedback.h"

#define PACKETS 512
#define WAITING 64
#define US      1000ull

struct world {
    struct bt_server *server;
    struct bt_pool_fixed pool;
    struct bt_txq txq;
    uint64_t now;
    uint64_t waiting[WAITING];
    unsigned waitings;
    uint32_t under_way; // requests that came and did not leave
    uint8_t admit;
    uint8_t heed;         // what becomes of a CANCEL: enum bt_server_cancel
    struct bt_pkt *hoard; // packets taken away to starve the server
    uint64_t served[4];   // last told, by router
    uint8_t last[1600];   // the last packet it was given, to be changed and given again
    uint32_t last_n;
    uint8_t last_from;
};

static struct world w;
static _Alignas(64) uint8_t pool_mem[PACKETS * (sizeof(struct bt_pkt) + BT_PKT_BUFFER)];
static void *server_mem;

static void on_request(void *arg, const struct bt_server_request *rq, struct bt_txq *txq)
{
    (void)arg;
    (void)txq;
    uint32_t sum = 0;
    for (struct bt_pkt *p = rq->msg.head; p; p = p->next) {
        sum += p->len;
    }
    CHECK(sum == rq->msg.len);
    CHECK(w.waitings < WAITING);
    w.waiting[w.waitings++] = rq->handle;
}

static bool on_admit(void *arg)
{
    (void)arg;
    return w.admit != 1;
}

// The application has what it was handed, and is asked about nothing else.
static enum bt_server_cancel on_cancel(void *arg, uint64_t handle)
{
    (void)arg;
    unsigned i = 0;
    while (i < w.waitings && w.waiting[i] != handle) {
        i++;
    }
    CHECK(i < w.waitings);
    CHECK(bt_server_cancelled(w.server, handle));
    if (w.heed != BT_CANCEL_KEPT) {
        w.waiting[i] = w.waiting[--w.waitings];
    }
    return (enum bt_server_cancel)w.heed;
}

static void feedback_is_monotonic(const struct bt_pkt *p, const struct bt_r2p2_hdr *h)
{
    struct bt_feedback fb;
    CHECK(bt_feedback_decode(h->payload, h->payload_len, &fb) == BT_M_OK);
    if (fb.version == 0) {
        return;
    }
    uint64_t *served = &w.served[p->dst.ip[15] & 3];
    CHECK(fb.served >= *served && fb.received >= fb.served);
    *served = fb.served;
}

static void drain(void)
{
    for (struct bt_pkt *p; (p = bt_txq_pop(&w.txq));) {
        struct bt_r2p2_hdr h;
        CHECK(bt_r2p2_decode(p->data, p->len, BT_ROLE_ANY, &h) == BT_M_OK); // we send only what is legal
        CHECK(h.type != BT_REQUEST);
        if (h.type == BT_FEEDBACK) {
            feedback_is_monotonic(p, &h);
        }
        bt_pool_put(&w.pool.pool, p);
    }
}

static void answer(struct input *in, int drop)
{
    static uint8_t body[140000];
    if (w.waitings == 0) {
        return;
    }
    unsigned i = in8(in) % w.waitings;
    if (drop && bt_server_abandon(w.server, w.now, w.waiting[i], &w.txq) == 0) { // it was taken back
        w.waiting[i] = w.waiting[--w.waitings];
        return;
    }
    uint32_t len = in_length(in) * (in8(in) & 15 ? 1u : 80u);
    struct iovec iov = {body, len < sizeof body ? len : sizeof body};
    int err = drop ? bt_server_drop(w.server, w.now, w.waiting[i], &w.txq)
                   : bt_server_reply(w.server, w.now, w.waiting[i], &iov, 1, &w.txq);
    CHECK(err == 0 || (!drop && err != BT_RPC_BAD_ARGUMENT));
    if (err == 0) {
        CHECK(bt_server_drop(w.server, w.now, w.waiting[i], &w.txq) == BT_RPC_BAD_ARGUMENT);
        w.waiting[i] = w.waiting[--w.waitings];
    }
}

static void receive(struct input *in, int raw)
{
    static const uint32_t sources[] = {0x0a000005, 0x0a000006, 0x0a000001, 0x0a000002};
    struct bt_pkt *p = bt_pool_get(&w.pool.pool);
    if (!p) {
        return;
    }
    uint8_t pick = in8(in);
    p->src = bt_addr_v4u(sources[pick & 3], 8000);
    p->dst = bt_addr_v4u(0x0a000009, 8000);
    if (raw) {
        in_raw(in, p, in8(in));
    } else {
        in_packet(in, p, (pick >> 2) & 15);
    }
    w.last_n = p->len < sizeof w.last ? p->len : 0;
    w.last_from = pick & 3;
    memcpy(w.last, p->data, w.last_n);
    bt_server_rx(w.server, w.now, p, &w.txq);
}

// The last packet once more, changed; perhaps by way of a router that says whose it is.
static void receive_changed(struct input *in)
{
    struct bt_pkt *p = bt_pool_get(&w.pool.pool);
    if (!p) {
        return;
    }
    uint32_t n = mutate(in, w.last, w.last_n, sizeof w.last);
    p->src = bt_addr_v4u(w.last_from < 2 ? 0x0a000005u + w.last_from : 0x0a000001u + (w.last_from & 1u), 8000);
    p->dst = bt_addr_v4u(0x0a000009, 8000);
    memcpy(bt_pkt_append(p, n), w.last, n);
    w.last_n = n;
    bt_server_rx(w.server, w.now, p, &w.txq);
}

// A whole request as a router forwards it: counted, so that credits are at stake.
static void forwarded(struct input *in)
{
    struct bt_pkt *p = bt_pool_get(&w.pool.pool);
    if (!p) {
        return;
    }
    uint8_t pick = in8(in), how = in8(in), count = how & 3;
    struct bt_r2p2_hdr h = {.type = BT_REQUEST, .first = true, .last = count < 2, .ext = true, .req_id = pick >> 3};
    h.count_or_index = count < 2 ? 1 : count;
    h.opt.present = BT_HAS_FORWARDED | BT_HAS_ROUTER;
    h.opt.forwarded = bt_addr_v4u(0x0a000005, (uint16_t)(9000 + (pick & 1)));
    h.opt.router_id = 7;
    h.opt.copy = how >> 3;
    h.opt.present |= how & 4 ? BT_HAS_COPY : 0;
    p->src = bt_addr_v4u(0x0a000001u + (pick >> 1 & 3u) % 3u, 8000);
    p->dst = bt_addr_v4u(0x0a000009, 8000);
    memset(bt_pkt_append(p, 14), pick, 14);
    CHECK(bt_r2p2_push_header(p, &h));
    w.last_n = p->len;
    w.last_from = 2 + (pick >> 1 & 1);
    memcpy(w.last, p->data, w.last_n);
    bt_server_rx(w.server, w.now, p, &w.txq);
}

// A CANCEL of one of these, by one of the routers, tagged or not.
static void cancel(struct input *in)
{
    struct bt_pkt *p = bt_pool_get(&w.pool.pool);
    if (!p) {
        return;
    }
    uint8_t pick = in8(in), how = in8(in);
    struct bt_r2p2_hdr h = {.type = BT_CANCEL, .first = true, .last = true, .ext = true, .req_id = pick >> 3};
    const struct bt_key key = {1, {1}};
    h.count_or_index = 1;
    h.opt.present = BT_HAS_FORWARDED | BT_HAS_COPY | (how & 4 ? 0 : BT_HAS_TAG);
    h.opt.forwarded = bt_addr_v4u(0x0a000005, (uint16_t)(9000 + (pick & 1)));
    h.opt.copy = how >> 3;
    h.opt.key_id = 1;
    p->src = bt_addr_v4u(0x0a000001u + (pick >> 1 & 3u) % 3u, 8000);
    p->dst = bt_addr_v4u(0x0a000009, 8000);
    w.heed = (how & 3) % 3;
    CHECK(bt_r2p2_push_header(p, &h));
    bt_tag_sign(p->data, p->len, &h, &key, &p->src, &p->dst);
    bt_server_rx(w.server, w.now, p, &w.txq);
}

static void check(void)
{
    struct bt_server_router_state st;
    uint64_t open = 0;
    for (int i = 0; bt_server_router_state(w.server, i, &st); i++) {
        CHECK(st.received >= st.served);
        open += st.received - st.served;
    }
    CHECK(open <= bt_server_backlog(w.server));
    CHECK(bt_server_backlog(w.server) <= 12 && w.waitings <= bt_server_backlog(w.server));
    CHECK(bt_server_next(w.server) != UINT64_MAX && bt_server_next(w.server) + 512 > w.now); // R-40 never ends
    CHECK(w.pool.left <= PACKETS);
}

// 10.0.0.1…3 as routers, some legacy; n, leave, join; hunger.
static void configure(struct input *in)
{
    struct bt_server_router r[3];
    uint8_t how = in8(in);
    for (unsigned i = 0; i < 3; i++) {
        r[i].request = bt_addr_v4u(0x0a000001 + i, 8000);
        r[i].feedback = bt_addr_v4u(0x0a000001 + i, 9000);
        r[i].legacy = how == 255 && i == 0;
    }
    switch (how & 7) {
    case 0:
    case 1:
    case 2:
        CHECK(bt_server_set_routers(w.server, w.now, r, how & 3, &w.txq) == 0);
        break;
    case 3:
        bt_server_set_n(w.server, w.now, how >> 3, &w.txq);
        break;
    case 4:
        bt_server_leave(w.server, w.now, &w.txq);
        break;
    case 5:
        bt_server_join(w.server, w.now, &w.txq);
        break;
    case 6:
        for (unsigned i = 0; i < 16u * (how >> 3) && w.pool.left > 4; i++) {
            struct bt_pkt *p = bt_pool_get(&w.pool.pool);
            p->next = w.hoard;
            w.hoard = p;
        }
        break;
    default:
        bt_pool_put_chain(&w.pool.pool, w.hoard);
        w.hoard = NULL;
        w.admit = how >> 7;
        break;
    }
}

// Flow control (F-10): who comes leaves once, and what is told is anything.
static uint32_t flow_arrived(void *arg, const struct bt_addr *client, struct bt_server_came came, uint64_t now)
{
    (void)arg;
    (void)now;
    bool refused = came.asked && (client->port & 1) != 0;
    w.under_way += !refused;
    return refused ? 3 | BT_FLOW_REFUSED : 3;
}

static void flow_left(void *arg, uint32_t number, const struct bt_server_took *took)
{
    (void)arg;
    (void)took;
    CHECK(number == 3 && w.under_way-- > 0);
}

static uint16_t flow_signal(void *arg, uint32_t number, uint64_t now)
{
    (void)arg;
    CHECK(number == 3 || number == BT_FLOW_NONE);
    return (uint16_t)now;
}

static void start(void)
{
    struct bt_server_cfg cfg = {.local = bt_addr_v4u(0x0a000009, 8000),
                                .mtu = 1500,
                                .n = 4,
                                .feedback_port = 9000,
                                .max_pending = 12,
                                .max_assemblies = 4,
                                .max_done = 8,
                                .max_held = 4,
                                .max_message = 128 * 1024,
                                .incarnation = 5,
                                .timers = bt_rpc_timers_for(BT_DEVICE_SRIOV),
                                .keys = {{{1, {1}}}},
                                .seed = {1, 2}};
    memset(&w, 0, sizeof w);
    w.now = 1000000 * US;
    bt_txq_init(&w.txq);
    cfg.pool = bt_pool_fixed_init(&w.pool, pool_mem, PACKETS);
    cfg.ops = (struct bt_server_ops){on_request, on_admit, NULL, on_cancel};
    cfg.flow = (struct bt_server_flow){flow_arrived, flow_left, flow_signal, NULL};
    size_t bytes = bt_server_bytes(&cfg);
    if (!server_mem) {
        server_mem = aligned_alloc(64, bytes);
    }
    w.server = bt_server_init(&cfg, server_mem, bytes, w.now);
    CHECK(w.server);
}

static void wind_down(void)
{
    struct bt_server_router_state st;
    bt_pool_put_chain(&w.pool.pool, w.hoard);
    while (w.waitings) {
        CHECK(bt_server_drop(w.server, w.now, w.waiting[--w.waitings], &w.txq) == 0);
        drain();
    }
    for (int i = 0; i < 60; i++) {
        w.now += 5000 * US;
        bt_server_tick(w.server, w.now, &w.txq);
        drain();
    }
    CHECK(bt_server_backlog(w.server) == 0 && w.pool.left == PACKETS && w.under_way == 0);
    for (int i = 0; bt_server_router_state(w.server, i, &st); i++) {
        CHECK(st.received == st.served);
    }
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
        answer(in, 0);
        break;
    case 3:
        configure(in);
        break;
    case 4:
        answer(in, in8(in) & 1);
        break;
    case 5:
        (verb & 0x18) == 0x18 ? cancel(in) : (verb & 8) != 0 ? forwarded(in) : receive_changed(in);
        break;
    default:
        receive(in, 0);
        break;
    }
    bt_server_tick(w.server, w.now, &w.txq);
    drain();
    check();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    start();
    while (in.left) {
        step(&in);
    }
    wind_down();
    return 0;
}
