// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the whole: the input tells what clients ask, which packet arrives, twice, changed or never, what
// applications answer, who crashes, whose clock jumps, whose buffers run out. Then the faults end, and everything must
// be as before: every request ended once, no packet kept, every credit back, probes answered.
#include "system.h"

static uint8_t body[BODY_MAX];

static void ask(struct input *in)
{
    uint8_t who = in8(in), how = in8(in);
    uint32_t len = in_length(in) * ((how & 15) == 15 ? 8u : 1u);
    struct iovec iov = {body, len < sizeof body ? len : sizeof body};
    bool direct = (how & 0x60) == 0x60;
    struct bt_request rq = {.iov = &iov, .iovcnt = 1, .cookie = w.calls};
    rq.dst = sys_addr(direct ? FIRST_SERVER + (how & 3u) % SERVERS : FIRST_ROUTER + (how >> 7), 0);
    rq.timeout_ns = (1 + (uint64_t)in8(in)) * 200 * US;
    rq.policy = (how & 0x1c) == 0x1c ? 1 : (who & 0xf8) == 0xf8 ? who & 3 : 0;
    rq.with_class = who & 2;
    rq.with_trace = who & 4;
    if (w.calls < CALLS) {
        memset(body, (int)(w.calls & 0xff), iov.iov_len);
        sys_request(who % CLIENTS, &rq);
    }
}

// One waiting packet: it arrives, arrives and stays, is lost, or is changed first.
static void network(struct input *in, uint8_t what)
{
    if (w.lan.waiting == 0) {
        return;
    }
    uint32_t i = in8(in);
    i = (i & 0x80) != 0 ? i % w.lan.waiting : 0; // half of the time the oldest: order is the normal case
    struct lan_packet now = *lan_at(&w.lan, i);
    if (what == 2) { // lost
        w.lan.lost++;
        lan_remove(&w.lan, i);
        return;
    }
    if (what == 3) { // changed on the way
        now.len = mutate(in, now.bytes, now.len, LAN_BYTES);
        w.tainted = true;
        w.forged = w.forged || !w.keyed;
    }
    if (what == 1) {
        w.lan.copied++;
    } else {
        lan_remove(&w.lan, i);
    }
    w.lan.arrived++;
    sys_arrive(&now.src, &now.dst, now.bytes, now.len);
}

// Bytes from anybody to anybody.
static void nonsense(struct input *in)
{
    uint8_t bytes[64], from = in8(in), to = in8(in);
    uint32_t len = in8(in) % sizeof bytes;
    for (uint32_t i = 0; i < len; i++) {
        bytes[i] = in8(in);
    }
    if (len > 1 && (from & 0x80) == 0) {
        bytes[0] = 0xcc;
        bytes[1] = 8;
    }
    struct bt_addr src = (from & 0x40) != 0 ? bt_addr_v4u(0x0a090909, 7) : sys_addr(from % NODES, 0);
    struct bt_addr dst = sys_addr(to % NODES, to >> 7);
    w.tainted = true;
    w.forged = w.forged || !w.keyed;
    sys_arrive(&src, &dst, bytes, len);
}

static void answer(struct input *in)
{
    uint8_t who = in8(in), how = in8(in);
    struct node_server *s = &w.server[who % SERVERS];
    uint32_t node = FIRST_SERVER + who % SERVERS;
    struct bt_txq q;
    if (s->jobs == 0) {
        return;
    }
    struct job *j = &s->job[how % s->jobs];
    uint32_t len = in_length(in) * ((how & 0x70) == 0x70 ? 8u : 1u);
    struct iovec iov = {body, len < sizeof body ? len : sizeof body};
    memset(body, j->fill, iov.iov_len);
    bt_txq_init(&q);
    int err = (how & 0x8f) == 0x8f ? bt_server_drop(s->core, sys_clock(node), j->handle, &q)
                                   : bt_server_reply(s->core, sys_clock(node), j->handle, &iov, 1, &q);
    CHECK(err == 0 || err == BT_RPC_NO_BUFFER || err == BT_RPC_TOO_LARGE);
    if (err == 0) {
        CHECK(bt_server_drop(s->core, sys_clock(node), j->handle, &q) == BT_RPC_BAD_ARGUMENT);
        *j = s->job[--s->jobs];
    }
    sys_out(node, &q);
}

// what operators and life do to a worker.
static void manage_server(struct input *in)
{
    uint8_t who = in8(in), how = in8(in);
    uint32_t i = who % SERVERS, node = FIRST_SERVER + i;
    struct bt_server *s = w.server[i].core;
    struct bt_rpc_timers t = bt_rpc_timers_for(BT_DEVICE_SRIOV);
    struct bt_txq q;
    bt_txq_init(&q);
    switch (how & 7) {
    case 0:
        bt_server_leave(s, sys_clock(node), &q);
        break;
    case 1:
        bt_server_join(s, sys_clock(node), &q);
        break;
    case 2:
        bt_server_set_n(s, sys_clock(node), how >> 3, &q);
        break;
    case 3:
        w.server[i].refuse = how >> 7;
        break;
    case 4:
        t.rto_ns = (1 + (uint64_t)(how >> 3)) * 100 * US;
        CHECK(bt_server_set_timers(s, &t) == 0);
        break;
    case 5:
        sys_routers_of(i, (how >> 3) % (ROUTERS + 1));
        return;
    default: // kill -9 and a start; its wall clock may have been set back meanwhile
        sys_start_server(i, w.server[i].incarnation + (how >= 0xf0 ? 0u - 9u : 1u));
        return;
    }
    sys_out(node, &q);
}

static void manage_router(struct input *in)
{
    uint8_t who = in8(in), how = in8(in);
    uint32_t i = who & 1, node = FIRST_ROUTER + i;
    struct bt_addr worker = sys_addr(FIRST_SERVER + how % (SERVERS + 1u) % SERVERS, 0);
    switch (who >> 6) {
    case 0:
        bt_router_unreachable(w.router[i].core, sys_clock(node), &worker);
        break;
    case 1:
        if ((who & 0x3e) == 0x3e) {
            sys_start_router(i);
        }
        break;
    default: {
        uint32_t depth = 1 + in8(in) % 5u, limit = 1 + in8(in) % 16u;
        bool good = (how >> 4) % 8 < BT_ROUTER_POLICIES;
        CHECK(sys_configure(i, (who & 0x20u) << 3 | how, depth, limit, 4 + in8(in)) == good);
        break;
    }
    }
    sys_check_node(node);
}

static void shortage(struct input *in)
{
    uint8_t who = in8(in);
    uint32_t node = (who & 0x3f) % NODES;
    bool router = node >= FIRST_ROUTER && node < FIRST_SERVER;
    if ((who & 0x40) != 0) {
        sys_release(node);
    } else {
        sys_hoard(node, router ? 4 + (who >> 7) : who >> 7); // io.h: a driver always has a few for a router to move
    }
}

// A half of a router on two threads reads its port, or falls asleep, or wakes.
static void turn(struct input *in)
{
    uint8_t who = in8(in);
    struct node_router *r = &w.router[who & 1];
    uint32_t half = who >> 1 & 1;
    if (!r->two) {
        return;
    }
    if ((who & 4) != 0) {
        r->asleep ^= 1u << half;
    } else {
        sys_threads_turn(FIRST_ROUTER + (who & 1), half == 1, who >> 3);
    }
    sys_check_node(FIRST_ROUTER + (who & 1));
}

static void time_passes(struct input *in, uint8_t how)
{
    uint8_t amount = in8(in);
    uint64_t earliest = UINT64_MAX;
    if (how == 0) {
        w.now += (uint64_t)amount * 20 * US;
    } else if (how == 1) {
        w.now += (uint64_t)(amount & 15) * 20 * MS;
    } else { // to the next thing anybody waits for
        for (uint32_t n = 0; n < NODES; n++) {
            uint64_t wait = w.box[n].next == UINT64_MAX ? UINT64_MAX : w.box[n].next - sys_clock(n);
            if (w.box[n].next > sys_clock(n) && wait < earliest) {
                earliest = wait;
            }
        }
        w.now += earliest != UINT64_MAX ? earliest : MS;
    }
    for (uint32_t n = 0; n < NODES; n++) {
        sys_tick(n);
        sys_check_node(n);
    }
}

// A clock leaps ahead, or (which no monotonic clock may do) a little back; or a client dies and starts anew.
static void strange(struct input *in)
{
    uint8_t who = in8(in), how = in8(in);
    uint32_t node = (who & 0x3f) % NODES;
    if (who >> 6 == 3 && node < CLIENTS) {
        bt_client_close(w.client[node].core, sys_clock(node));
        CHECK(w.client[node].open == 0);
        sys_release(node);
        CHECK(w.box[node].pool.left == PACKETS);
        sys_start_client(node, how);
        w.tainted = true;
    } else if (who >> 6 == 2) {
        if (w.gone_back_us + how * 20u <= BACK_MAX_US) {
            w.box[node].skew -= (uint64_t)how * 20 * US;
            w.gone_back_us += how * 20u;
        }
    } else {
        w.box[node].skew += (uint64_t)how << (who >> 4 & 3) * 8 << 10;
    }
    sys_tick(node);
    sys_check_node(node);
}

static void sentence(struct input *in)
{
    uint8_t verb = in8(in);
    switch (verb & 15) {
    case 0:
    case 1:
    case 2:
        ask(in);
        break;
    case 3:
    case 4:
    case 5:
    case 6:
        network(in, 0);
        break;
    case 7:
        network(in, 1 + (verb >> 4 & 1));
        break;
    case 8:
        network(in, 3);
        break;
    case 9:
    case 10:
        answer(in);
        break;
    case 11:
        time_passes(in, verb >> 4 & 3);
        break;
    case 12:
        manage_server(in);
        break;
    case 13:
        manage_router(in);
        break;
    case 14:
        (verb & 0x10) != 0 ? turn(in) : shortage(in);
        break;
    default:
        (verb & 0x10) != 0 ? strange(in) : nonsense(in);
        break;
    }
    lan_check(&w.lan);
}

// --- the end of every story -----------------------------------------------------------------------

static void deliver_all(void)
{
    while (w.lan.waiting > 0) {
        struct lan_packet p = *lan_at(&w.lan, 0);
        lan_remove(&w.lan, 0);
        w.lan.arrived++;
        sys_arrive(&p.src, &p.dst, p.bytes, p.len);
    }
    for (uint32_t i = 0; i < ROUTERS; i++) {
        if (w.router[i].two) {
            sys_threads_tick(FIRST_ROUTER + i);
        }
    }
    if (w.lan.waiting > 0) {
        deliver_all();
    }
}

static void answer_all(void)
{
    for (uint32_t i = 0; i < SERVERS; i++) {
        struct node_server *s = &w.server[i];
        uint32_t node = FIRST_SERVER + i;
        while (s->jobs > 0) {
            struct job j = s->job[--s->jobs];
            struct iovec iov = {body, 100};
            struct bt_txq q;
            bt_txq_init(&q);
            memset(body, j.fill, 100);
            CHECK(bt_server_reply(s->core, sys_clock(node), j.handle, &iov, 1, &q) == 0);
            sys_out(node, &q);
        }
    }
}

static void honest_time(uint64_t ns, uint64_t step)
{
    for (uint64_t end = w.now + ns; w.now < end;) {
        deliver_all();
        answer_all();
        deliver_all();
        w.now += step;
        for (uint32_t n = 0; n < NODES; n++) {
            sys_tick(n);
            sys_check_node(n);
        }
    }
}

static void restore(void)
{
    for (uint32_t n = 0; n < NODES; n++) {
        sys_release(n);
    }
    for (uint32_t i = 0; i < SERVERS; i++) {
        struct bt_rpc_timers t = bt_rpc_timers_for(BT_DEVICE_SRIOV);
        struct bt_txq q;
        bt_txq_init(&q);
        w.server[i].refuse = 0;
        bt_server_set_timers(w.server[i].core, &t);
        bt_server_set_n(w.server[i].core, sys_clock(FIRST_SERVER + i), 4, &q);
        bt_server_join(w.server[i].core, sys_clock(FIRST_SERVER + i), &q);
        sys_out(FIRST_SERVER + i, &q);
        sys_routers_of(i, ROUTERS);
    }
    for (uint32_t i = 0; i < ROUTERS; i++) {
        w.router[i].asleep = 0;
        CHECK(sys_configure(i, 7, 2, 16, 20));
    }
}

// a request through each router is answered.
static void probe(void)
{
    uint32_t first = w.calls;
    for (uint32_t i = 0; i < ROUTERS && w.calls < CALLS; i++) {
        struct iovec iov = {body, 40};
        struct bt_request rq = {.iov = &iov, .iovcnt = 1, .dst = sys_addr(FIRST_ROUTER + i, 0), .cookie = w.calls};
        rq.timeout_ns = 200 * MS;
        memset(body, (int)(w.calls & 0xff), 40);
        CHECK(sys_request(i % CLIENTS, &rq) >= 0);
    }
    uint64_t before = 0, after = 0;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        before += bt_client_counters(w.client[i].core)[BT_CLIENT_SUCCEEDED];
    }
    honest_time(5 * MS, MS);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        after += bt_client_counters(w.client[i].core)[BT_CLIENT_SUCCEEDED];
    }
    CHECK(w.forged || after - before == w.calls - first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    sys_open(in8(&in));
    while (in.left) {
        sentence(&in);
    }
    restore();
    honest_time(40 * MS, 2 * MS);   // as long as a clock went back at most
    honest_time(260 * MS, 10 * MS); // T_max, four RTO, T_dead, a few periods of FEEDBACK
    probe();
    honest_time(60 * MS, 10 * MS);
    sys_check_end();
    lan_check(&w.lan);
    return 0;
}
