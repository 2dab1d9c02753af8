// SPDX-License-Identifier: Apache-2.0
// The nodes of fuzz_system: their cores, what their applications do, and how packets reach them.
#include "system.h"

struct world w;

struct bt_addr sys_addr(uint32_t node, uint32_t port)
{
    bool client = node < FIRST_ROUTER, router = !client && node < FIRST_SERVER;
    uint16_t number = client ? 40000 : (uint16_t)(8000 + 1000 * port);
    return bt_addr_v4u(0x0a000001 + (client ? 0u : router ? 0x100u : 0x200u) + node, number);
}

uint32_t sys_node(const struct bt_addr *a, uint32_t *port)
{
    for (uint32_t n = 0; n < NODES; n++) {
        for (*port = 0; *port < 2; (*port)++) {
            struct bt_addr own = sys_addr(n, *port);
            bool has = *port == 0 || (n >= FIRST_ROUTER && n < FIRST_SERVER);
            if (has && bt_addr_eq(a, &own)) {
                return n;
            }
        }
    }
    return NODES;
}

uint64_t sys_clock(uint32_t node)
{
    return w.now + w.box[node].skew;
}

void sys_hoard(uint32_t node, uint32_t keep)
{
    struct box *b = &w.box[node];
    while (b->pool.left > keep) {
        struct bt_pkt *p = bt_pool_get(&b->pool.pool);
        p->next = b->hoard;
        b->hoard = p;
    }
}

void sys_release(uint32_t node)
{
    bt_pool_put_chain(&w.box[node].pool.pool, w.box[node].hoard);
    w.box[node].hoard = NULL;
}

// A fresh pool: what the node held before is gone with it.
static struct bt_pool *fresh_pool(uint32_t node)
{
    struct box *b = &w.box[node];
    if (b->pool_mem == NULL) {
        b->pool_mem = malloc(bt_pool_fixed_bytes(PACKETS));
    }
    CHECK(b->pool_mem);
    b->hoard = NULL;
    return bt_pool_fixed_init(&b->pool, b->pool_mem, PACKETS);
}

static void *room(uint32_t node, size_t bytes)
{
    CHECK(bytes > 0);
    if (w.box[node].mem == NULL) {
        w.box[node].mem = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    }
    CHECK(w.box[node].mem);
    return w.box[node].mem;
}

// --- applications ---------------------------------------------------------------------------------

static void ended(void *arg, uint64_t cookie)
{
    struct node_client *c = arg;
    CHECK(cookie < w.calls && w.call[cookie].client == (uint32_t)(c - w.client));
    CHECK(++w.call[cookie].ends == 1);
    CHECK(c->open > 0);
    c->open--;
}

static void on_success(void *arg, uint64_t cookie, struct bt_msg *reply, const struct bt_reply_info *info)
{
    struct node_client *c = arg;
    uint32_t sum = 0, packets = 0;
    CHECK(cookie < w.calls && (w.tainted || info->req_id == w.call[cookie].req_id));
    for (struct bt_pkt *p = reply->head; p; p = p->next, packets++) {
        sum += p->len;
        for (uint32_t i = 0; !w.tainted && w.call[cookie].len > 0 && i < p->len; i++) {
            CHECK(p->data[i] == (uint8_t)cookie);
        }
    }
    CHECK(sum == reply->len && packets == reply->packets);
    ended(arg, cookie);
    bt_client_done(c->core, reply);
}

static void on_timeout(void *arg, uint64_t cookie)
{
    ended(arg, cookie);
}

static void on_error(void *arg, uint64_t cookie, int code)
{
    CHECK(code == BT_RPC_DROPPED || code == BT_RPC_REPLY_INCOMPLETE || code == BT_RPC_CANCELLED);
    ended(arg, cookie);
}

static void on_request(void *arg, const struct bt_server_request *rq, struct bt_txq *txq)
{
    struct node_server *s = arg;
    uint32_t sum = 0;
    struct job *j = &s->job[s->jobs];
    (void)txq;
    CHECK(s->jobs < JOBS);
    *j = (struct job){.handle = rq->handle};
    for (struct bt_pkt *p = rq->msg.head; p; p = p->next) {
        sum += p->len;
        for (uint32_t i = 0; i < p->len; i++) {
            CHECK(w.tainted || !j->sure || p->data[i] == j->fill);
            j->fill = p->data[i];
            j->sure = 1;
        }
    }
    CHECK(sum == rq->msg.len);
    s->jobs++;
}

static bool on_admit(void *arg)
{
    return !((struct node_server *)arg)->refuse;
}

int sys_request(uint32_t client, const struct bt_request *rq)
{
    struct bt_txq q;
    bt_txq_init(&q);
    struct node_client *c = &w.client[client];
    int id = bt_client_send(c->core, sys_clock(client), rq, &q);
    CHECK(id >= 0 || id == BT_RPC_NO_BUFFER || id == BT_RPC_TABLE_FULL || id == BT_RPC_TOO_LARGE);
    if (id >= 0) {
        for (uint32_t i = 0; i < w.calls; i++) { // nobody waits for this id
            CHECK(w.call[i].client != client || w.call[i].ends || w.call[i].req_id != id);
        }
        c->open++;
        w.call[w.calls++] = (struct call){(uint16_t)id, (uint8_t)client, 0, (uint32_t)rq->iov->iov_len};
    }
    sys_out(client, &q);
    return id;
}

// --- cores ----------------------------------------------------------------------------------------

void sys_start_client(uint32_t i, uint64_t seed)
{
    struct bt_client_cfg cfg = {.local = sys_addr(i, 0),
                                .mtu = 1500,
                                .max_pending = 12,
                                .max_assemblies = 3,
                                .max_message = 20000,
                                .extensions = (seed & 7) != 0,
                                .timers = bt_rpc_timers_for(BT_DEVICE_SRIOV),
                                .seed = seed,
                                .pool = fresh_pool(i),
                                .ops = {on_success, on_timeout, on_error, &w.client[i]}};
    size_t bytes = bt_client_bytes(&cfg);
    w.client[i].core = bt_client_init(&cfg, room(i, bytes), bytes, sys_clock(i));
    CHECK(w.client[i].core && w.client[i].open == 0);
}

bool sys_configure(uint32_t router, uint32_t bits, uint32_t depth, uint32_t limit, uint32_t timeout_ms)
{
    struct bt_addr members[SERVERS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < SERVERS; i++) {
        if ((bits >> i & 1) != 0) {
            members[n++] = sys_addr(FIRST_SERVER + (i + (bits >> 3)) % SERVERS, 0);
        }
    }
    bool hold_back = (bits & 0x100) != 0 && (bits >> 4) % 8 == BT_ROUTER_JBSQ;
    struct bt_router_config cfg = {.policy = (enum bt_router_policy)((bits >> 4) % 8),
                                   .forwarding = BT_FORWARD_ENCAPSULATED,
                                   .device = BT_DEVICE_SRIOV,
                                   .depth = depth,
                                   .central_limit = limit,
                                   .max_queue_ns = timeout_ms * MS,
                                   .request_timeout_ns = timeout_ms * MS,
                                   .hold_back_packets = hold_back ? 3 : 0,
                                   .hold_back_ns = hold_back ? 5000 : 0,
                                   .members = members,
                                   .members_n = n,
                                   .keys = w.keyed ? &w.keys : NULL};
    struct node_router *r = &w.router[router];
    uint64_t now = sys_clock(FIRST_ROUTER + router);
    if (!bt_router_apply(r->core, now, &cfg, NULL)) {
        return false;
    }
    r->policy = cfg.policy;
    r->limit = limit > r->limit ? limit : r->limit;
    return true;
}

void sys_start_router(uint32_t i)
{
    uint32_t node = FIRST_ROUTER + i;
    struct bt_router_setup setup = {.max_members = SERVERS,
                                    .max_pairs = 16,
                                    .no_histograms = true,
                                    .seed = 5 + i,
                                    .credits = THREAD_QUEUE,
                                    .notes = THREAD_QUEUE,
                                    .pool = fresh_pool(node),
                                    .request_addr = sys_addr(node, 0),
                                    .feedback_addr = sys_addr(node, 1)};
    size_t one = bt_router_bytes(&setup);
    setup.threads = 2;
    size_t two = bt_router_bytes(&setup), bytes = one > two ? one : two;
    void *mem = room(node, bytes); // kept from story to story
    CHECK(one > 0 && two > 0);
    setup.threads = 1 + (w.two >> i & 1);
    w.router[i] = (struct node_router){.limit = 1, .two = setup.threads == 2};
    w.router[i].core = bt_router_init(mem, bytes, &setup, sys_clock(node));
    CHECK(w.router[i].core);
    sys_threads_start(node);
    CHECK(sys_configure(i, 7, 2, 16, 40));
}

void sys_routers_of(uint32_t server, uint32_t count)
{
    struct bt_server_router list[ROUTERS];
    struct bt_txq q;
    for (uint32_t r = 0; r < count; r++) {
        list[r] = (struct bt_server_router){sys_addr(FIRST_ROUTER + r, 0), sys_addr(FIRST_ROUTER + r, 1), false};
    }
    bt_txq_init(&q);
    CHECK(bt_server_set_routers(w.server[server].core, sys_clock(FIRST_SERVER + server), list, (int)count, &q) == 0);
    sys_out(FIRST_SERVER + server, &q);
}

void sys_start_server(uint32_t i, uint32_t incarnation)
{
    uint32_t node = FIRST_SERVER + i;
    struct node_server *s = &w.server[i];
    struct bt_server_cfg cfg = {.local = sys_addr(node, 0),
                                .mtu = 1500,
                                .n = 3,
                                .feedback_port = 9000,
                                .max_pending = JOBS - 4,
                                .max_assemblies = 3,
                                .max_done = 32,
                                .max_held = 4,
                                .max_message = 20000,
                                .incarnation = incarnation,
                                .timers = bt_rpc_timers_for(BT_DEVICE_SRIOV),
                                .seed = {1, i},
                                .pool = fresh_pool(node),
                                .ops = {on_request, on_admit, s}};
    if (w.keyed) {
        cfg.keys = w.keys;
    }
    size_t bytes = bt_server_bytes(&cfg);
    *s = (struct node_server){.incarnation = incarnation};
    s->core = bt_server_init(&cfg, room(node, bytes), bytes, sys_clock(node));
    CHECK(s->core);
    sys_routers_of(i, ROUTERS);
}

void sys_open(uint8_t how)
{
    struct box kept[NODES];
    memcpy(kept, w.box, sizeof kept); // memory is taken once
    lan_open(&w.lan);
    memset(&w.now, 0, sizeof w - offsetof(struct world, now));
    w.now = 1000 * SECOND;
    w.keyed = (how & 3) != 0;
    w.two = how >> 2 & 3;
    for (uint8_t i = 0; i < 2; i++) {
        w.keys.key[i].id = (uint8_t)(i + 1);
        memset(w.keys.key[i].bytes, 7 + i, sizeof w.keys.key[i].bytes);
    }
    for (uint32_t n = 0; n < NODES; n++) {
        w.box[n].mem = kept[n].mem;
        w.box[n].pool_mem = kept[n].pool_mem;
        w.box[n].skew = (uint64_t)n * 977 * (how >> 4) * MS; // no two clocks agree
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        sys_start_client(i, how + i * 4u + 1u);
    }
    for (uint32_t i = 0; i < ROUTERS; i++) {
        sys_start_router(i);
    }
    for (uint32_t i = 0; i < SERVERS; i++) {
        sys_start_server(i, UINT32_MAX - 1); // incarnations wrap too
    }
    for (uint32_t n = 0; n < NODES; n++) {
        sys_tick(n);
    }
}

// --- packets and time -----------------------------------------------------------------------------

void sys_out(uint32_t node, struct bt_txq *q)
{
    sys_check_sent(node, q);
    lan_send(&w.lan, q, &w.box[node].pool.pool);
}

void sys_tick(uint32_t node)
{
    uint64_t now = sys_clock(node);
    struct bt_txq q;
    bt_txq_init(&q);
    if (node < FIRST_ROUTER) {
        bt_client_tick(w.client[node].core, now, &q);
        w.box[node].next = bt_client_next(w.client[node].core);
    } else if (node < FIRST_SERVER && w.router[node - FIRST_ROUTER].two) {
        sys_threads_tick(node);
        w.box[node].next = sys_threads_next(node);
    } else if (node < FIRST_SERVER) {
        bt_router_tick(w.router[node - FIRST_ROUTER].core, now, &q);
        w.box[node].next = bt_router_next(w.router[node - FIRST_ROUTER].core);
    } else {
        bt_server_tick(w.server[node - FIRST_SERVER].core, now, &q);
        w.box[node].next = bt_server_next(w.server[node - FIRST_SERVER].core);
    }
    CHECK(w.box[node].next > now || w.box[node].next + 512 > now); // the wheel's tick; a loop must not spin
    sys_out(node, &q);
}

void sys_arrive(const struct bt_addr *src, const struct bt_addr *dst, const uint8_t *bytes, uint32_t len)
{
    uint32_t port = 0, node = sys_node(dst, &port);
    struct bt_pkt *p = node < NODES ? bt_pool_get(&w.box[node].pool.pool) : NULL;
    struct bt_txq q;
    if (p == NULL) {
        return; // no such address, or the driver has no buffer for it
    }
    memcpy(bt_pkt_append(p, len), bytes, len);
    p->src = *src;
    p->dst = *dst;
    p->local = (uint16_t)port;
    p->t_rx_ns = sys_clock(node);
    bt_txq_init(&q);
    if (node < FIRST_ROUTER) {
        bt_client_rx(w.client[node].core, sys_clock(node), p, &q);
    } else if (node >= FIRST_SERVER) {
        bt_server_rx(w.server[node - FIRST_SERVER].core, sys_clock(node), p, &q);
    } else if (w.router[node - FIRST_ROUTER].two) {
        bt_txq_push(&w.router[node - FIRST_ROUTER].inbox[port], p);
    } else if (port == 0) {
        bt_router_request(w.router[node - FIRST_ROUTER].core, sys_clock(node), p, &q);
    } else {
        bt_router_feedback(w.router[node - FIRST_ROUTER].core, sys_clock(node), p, &q);
    }
    sys_out(node, &q);
    sys_check_node(node);
}
