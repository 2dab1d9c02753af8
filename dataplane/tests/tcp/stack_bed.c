// SPDX-License-Identifier: Apache-2.0
// See stack_bed.h.
#include "stack_bed.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

struct world world;

static void *on_accepted(void *arg, struct bt_tcp_conn *c, const struct bt_addr *peer)
{
    struct end *e = arg;
    (void)peer;
    if (e->used == e->talks) {
        return NULL;
    }
    struct talk *t = &e->talk[e->used++];
    bool holds = t->holds;
    *t = (struct talk){.end = e, .conn = c, .opened = true, .holds = holds, .got = t->got, .room = t->room};
    return t;
}

static void on_received(void *own, const uint8_t *bytes, uint32_t n)
{
    struct talk *t = own;
    assert_true(t->n + n <= t->room);
    memcpy(t->got + t->n, bytes, n);
    t->n += n;
    t->owed += n;
}

static void on_room(void *own)
{
    (void)own;
}

static void on_ended(void *own)
{
    ((struct talk *)own)->ended = true;
}

static void on_gone(void *own)
{
    struct talk *t = own;
    t->gone = true;
    t->conn = NULL;
}

static void on_opened(void *own)
{
    ((struct talk *)own)->opened = true;
}

static uint16_t on_signal(void *arg, void *own)
{
    (void)own;
    return ((struct end *)arg)->tells;
}

static void on_signalled(void *own, uint16_t bits)
{
    struct talk *t = own;
    t->signal = bits;
    t->signals++;
}

static struct end *begin_end(int which, struct bt_addr at)
{
    struct end *e = &world.end[which];
    *e = (struct end){.at = at, .slab = malloc(bt_pool_fixed_bytes(BUFFERS)), .tells = 5};
    assert_non_null(e->slab);
    bt_pool_fixed_init(&e->pool, e->slab, BUFFERS);
    bt_txq_init(&e->out);
    return e;
}

static void open_end(int which, struct bt_addr at, bool flow)
{
    struct end *e = begin_end(which, at);
    char why[200];
    e->stack = bt_tcp_stack_take();
    assert_non_null(e->stack);
    e->talk = world.talk;
    e->talks = which == SERVER ? 8 : 0;
    struct bt_tcp_setup setup = {.local = at,
                                 .mtu = 1500,
                                 .tx_local = 1,
                                 .key = {(uint8_t)which, 1, 2},
                                 .asks = which == CLIENT && flow,
                                 .pool = &e->pool.pool,
                                 .out = &e->out,
                                 .owner = {.accepted = on_accepted,
                                           .received = on_received,
                                           .room = on_room,
                                           .ended = on_ended,
                                           .gone = on_gone,
                                           .opened = on_opened,
                                           .signal = flow ? on_signal : NULL,
                                           .signalled = on_signalled,
                                           .arg = e}};
    if (which == CLIENT) {
        setup.local.port = 0;
    }
    assert_true(e->stack->open(&setup, world.now, why, sizeof why));
}

static struct bt_addr address(bool v4, int which)
{
    struct bt_addr a = v4 ? bt_addr_v4u(0x0a000001u + (uint32_t)which, PORT) : (struct bt_addr){.ip = {0xfd}};
    if (!v4) {
        a.ip[15] = (uint8_t)(1 + which);
        bt_addr_set_port(&a, PORT);
    }
    return a;
}

static void begin_world(void)
{
    uint64_t now = world.now + 1000 * MS;
    memset(world.flight, 0, sizeof world.flight);
    world.now = now;
    world.loss = world.twice = world.late = world.damage = 0;
    world.seen = NULL;
    world.syn_ack_len = 0;
    for (unsigned i = 0; i < 8; i++) {
        world.talk[i] = (struct talk){.got = malloc(sizeof world.said), .room = sizeof world.said};
    }
    world.client =
        (struct talk){.end = &world.end[CLIENT], .got = malloc(sizeof world.said), .room = sizeof world.said};
}

void open_world(bool v4, bool asks, bool answers)
{
    begin_world();
    open_end(SERVER, address(v4, SERVER), answers);
    open_end(CLIENT, address(v4, CLIENT), asks);
}

void open_client(bool v4, bool asks, struct player server)
{
    begin_world();
    world.player = server;
    (void)begin_end(SERVER, address(v4, SERVER));
    open_end(CLIENT, address(v4, CLIENT), asks);
}

void close_world(void)
{
    for (int i = 0; i < 2; i++) {
        struct end *e = &world.end[i];
        if (e->stack != NULL) {
            e->stack->close();
            bt_tcp_stack_give(e->stack);
        }
        bt_pool_put_chain(&e->pool.pool, e->out.head);
    }
    for (unsigned i = 0; i < FLIGHT; i++) {
        if (world.flight[i].pkt != NULL) {
            bt_pool_put(&world.end[world.flight[i].to].pool.pool, world.flight[i].pkt);
        }
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(world.end[i].pool.left, BUFFERS);
        free(world.end[i].slab);
    }
    for (unsigned i = 0; i < 8; i++) {
        free(world.talk[i].got);
    }
    free(world.client.got);
}

static bool chance(unsigned of_1000)
{
    return bt_rng_next(&world.rng) % 1000 < of_1000;
}

void put_on_wire(int to, const uint8_t *bytes, uint32_t n, uint8_t offload)
{
    for (unsigned i = 0; i < FLIGHT; i++) {
        if (world.flight[i].pkt == NULL) {
            struct bt_pkt *p = bt_pool_get(&world.end[to].pool.pool);
            assert_non_null(p);
            memcpy(bt_pkt_append(p, n), bytes, n);
            p->offload = offload;
            if (chance(world.damage)) {
                p->data[20 + bt_rng_next(&world.rng) % (n - 20)] ^= (uint8_t)(1u << bt_rng_next(&world.rng) % 8);
            }
            uint64_t late = chance(world.late) ? bt_rng_next(&world.rng) % (3 * MS) : 0;
            world.flight[i] = (struct packet){world.now + MS / 20 + late, to, p};
            return;
        }
    }
    fail_msg("the wire holds no more");
}

static void leave(int from)
{
    struct end *e = &world.end[from];
    struct bt_pkt *p;
    while ((p = bt_txq_pop(&e->out)) != NULL) {
        bool v4 = p->data[0] >> 4 == 4;
        const uint8_t *tcp = p->data + (v4 ? 20 : 40);
        assert_int_equal(p->local, 1);
        assert_true(bt_addr_ip_eq(&p->dst, &world.end[!from].at));
        if ((tcp[13] & 0x12) == 0x12 && p->len <= sizeof world.syn_ack) {
            memcpy(world.syn_ack, tcp, p->len - (v4 ? 20 : 40));
            world.syn_ack_len = p->len - (v4 ? 20 : 40);
        }
        for (unsigned i = chance(world.twice) ? 2 : 1; i-- > 0;) {
            if (!chance(world.loss)) {
                put_on_wire(!from, p->data, p->len, 0);
            }
        }
        bt_pool_put(&e->pool.pool, p);
    }
}

void arrive(void)
{
    for (unsigned i = 0; i < FLIGHT; i++) {
        struct packet *p = &world.flight[i];
        if (p->pkt != NULL && p->due <= world.now) {
            struct bt_pkt *pkt = p->pkt;
            p->pkt = NULL;
            if (world.end[p->to].stack != NULL) {
                world.end[p->to].stack->rx(pkt, world.now);
            } else {
                world.player.takes(pkt);
            }
        }
    }
}

static void take(struct talk *t)
{
    if (t->conn != NULL && !t->holds && t->owed != 0) {
        t->end->stack->taken(t->conn, t->owed);
        t->owed = 0;
    }
}

/* The server says back what came. */
static void echo(struct talk *t)
{
    if (t->conn != NULL && !t->holds && t->sent < t->n) {
        t->sent += t->end->stack->write(t->conn, t->got + t->sent, t->n - t->sent);
    }
    if (t->conn != NULL && t->ended && !t->holds && t->sent == t->n) {
        t->end->stack->end(t->conn);
        t->conn = NULL;
    }
}

static void say(uint32_t n)
{
    struct talk *t = &world.client;
    if (t->conn != NULL && t->opened && t->sent < n) {
        uint32_t piece = 1 + (uint32_t)(bt_rng_next(&world.rng) % 5000);
        piece = piece < n - t->sent ? piece : n - t->sent;
        t->sent += t->end->stack->write(t->conn, world.said + t->sent, piece);
    }
}

static void run_end(const struct end *e)
{
    if (e->stack == NULL) {
        world.player.turns();
        return;
    }
    if (world.now >= e->stack->next()) {
        e->stack->tick(world.now);
    }
    e->stack->flush(world.now);
}

void turn(uint32_t n)
{
    world.now += MS / 10;
    arrive();
    for (unsigned i = 0; i < world.end[SERVER].used; i++) {
        take(&world.end[SERVER].talk[i]);
        echo(&world.end[SERVER].talk[i]);
    }
    take(&world.client);
    say(n);
    for (int i = 0; i < 2; i++) {
        run_end(&world.end[i]);
        leave(i);
    }
}

void dial_as(struct talk *t)
{
    t->end = &world.end[CLIENT];
    t->conn = t->end->stack->connect(&world.end[SERVER].at, t, world.now);
    assert_non_null(t->conn);
}

void dial(void)
{
    dial_as(&world.client);
}

void talk_for(uint32_t n, unsigned turns)
{
    for (unsigned i = 0; i < turns && (world.client.n < n || !world.client.opened) && !world.client.gone; i++) {
        turn(n);
    }
}

uint64_t counted(int which, enum bt_tcp_counter c)
{
    return world.end[which].stack->counters()[c];
}

void hear_all(uint32_t n)
{
    assert_false(world.client.gone);
    assert_int_equal(world.client.n, n);
    assert_memory_equal(world.client.got, world.said, n);
    assert_int_equal(world.talk[0].n, n);
}

void syn(uint32_t from, uint16_t port, const uint8_t *options, uint32_t n)
{
    uint8_t p[80] = {0x45, 0, 0, (uint8_t)(40 + n), [8] = 64, 6};
    struct bt_addr a = bt_addr_v4u(from, port);
    memcpy(p + 12, a.ip + 12, 4);
    memcpy(p + 16, world.end[SERVER].at.ip + 12, 4);
    bt_put16(p + 20, port);
    bt_put16(p + 22, PORT);
    p[32] = (uint8_t)((5 + n / 4) << 4);
    p[33] = 0x02;
    bt_put16(p + 34, 1000);
    if (n > 0) {
        memcpy(p + 40, options, n);
    }
    put_on_wire(SERVER, p, 40 + n, BT_PKT_RX_L4_OK);
}

void forge(uint32_t port, uint32_t seq, uint32_t ack)
{
    uint8_t p[44] = {0x45, 0, 0, 44, [8] = 64, 6};
    memcpy(p + 12, world.end[CLIENT].at.ip + 12, 4);
    memcpy(p + 16, world.end[SERVER].at.ip + 12, 4);
    bt_put16(p + 20, (uint16_t)port);
    bt_put16(p + 22, PORT);
    bt_put32(p + 24, seq);
    bt_put32(p + 28, ack);
    p[32] = 0x50;
    p[33] = 0x18;
    bt_put16(p + 34, 65535);
    put_on_wire(SERVER, p, sizeof p, BT_PKT_RX_L4_OK);
}

void prepare_world(void)
{
    bt_rng_seed(&world.rng, 7);
    for (size_t i = 0; i < sizeof world.said; i++) {
        world.said[i] = (uint8_t)(i * 2654435761u >> 13);
    }
}
