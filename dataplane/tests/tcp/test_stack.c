// SPDX-License-Identifier: Apache-2.0
// TCP past the kernel in virtual time: two stacks, each a copy of lwIP, and a wire between them that loses, repeats,
// reorders and damages packets as a seed says. What is sent arrives once and in order, or not at all; nothing grows.
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/rng.h"
#include "tcp/lwip/sizes.h"
#include "tcp/stack.h"
#include "wire/fc_signal.h"
#include "wire/tcp_flow.h"

enum { BUFFERS = 4096, FLIGHT = 4096, PORT = 7000, SERVER = 0, CLIENT = 1 };
#define MS UINT64_C(1000000)

struct packet {
    uint64_t due;
    int to;
    struct bt_pkt *pkt; // NULL: free
};

struct talk {
    struct end *end;
    struct bt_tcp_conn *conn; // NULL: gone
    uint8_t *got;
    uint32_t n, room;
    uint32_t sent; // client: of what it has to say
    uint32_t owed;
    bool opened, ended, gone, holds; // holds: takes nothing
    uint16_t signal;
    unsigned signals;
};

struct end {
    const struct bt_tcp_stack *stack;
    struct bt_pool_fixed pool;
    void *slab;
    struct bt_txq out;
    struct bt_addr at;
    struct talk *talk; // server: of the connections it gets
    unsigned talks, used;
    uint16_t tells;
};

static struct {
    struct end end[2];
    struct packet flight[FLIGHT];
    uint64_t now;
    struct bt_rng rng;
    unsigned loss, twice, late, damage; // of 1000
    struct talk talk[8], client;
    uint8_t said[400000];
    struct bt_pkt *seen; // a copy of the last segment with data to the server
    uint8_t syn_ack[100];
    uint32_t syn_ack_len;
} world;

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

static void open_end(int which, struct bt_addr at, bool flow)
{
    struct end *e = &world.end[which];
    char why[200];
    *e = (struct end){.at = at, .slab = malloc(bt_pool_fixed_bytes(BUFFERS)), .stack = bt_tcp_stack_take(), .tells = 5};
    assert_non_null(e->stack);
    bt_pool_fixed_init(&e->pool, e->slab, BUFFERS);
    bt_txq_init(&e->out);
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

static void open_world(bool v4, bool asks, bool answers)
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
    world.client = (struct talk){.got = malloc(sizeof world.said), .room = sizeof world.said};
    open_end(SERVER, address(v4, SERVER), answers);
    open_end(CLIENT, address(v4, CLIENT), asks);
    world.client.end = &world.end[CLIENT];
}

/* All packets are back when both are closed. */
static void close_world(void)
{
    for (int i = 0; i < 2; i++) {
        struct end *e = &world.end[i];
        e->stack->close();
        bt_tcp_stack_give(e->stack);
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

static void put_on_wire(int to, const uint8_t *bytes, uint32_t n, uint8_t offload)
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

static void arrive(void)
{
    for (unsigned i = 0; i < FLIGHT; i++) {
        struct packet *p = &world.flight[i];
        if (p->pkt != NULL && p->due <= world.now) {
            struct bt_pkt *pkt = p->pkt;
            p->pkt = NULL;
            world.end[p->to].stack->rx(pkt, world.now);
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

static void turn(uint32_t n)
{
    world.now += MS / 10;
    arrive();
    for (unsigned i = 0; i < world.end[SERVER].used; i++) {
        take(&world.talk[i]);
        echo(&world.talk[i]);
    }
    take(&world.client);
    say(n);
    for (int i = 0; i < 2; i++) {
        if (world.now >= world.end[i].stack->next()) {
            world.end[i].stack->tick(world.now);
        }
        world.end[i].stack->flush(world.now);
        leave(i);
    }
}

static void dial(void)
{
    world.client.conn = world.end[CLIENT].stack->connect(&world.end[SERVER].at, &world.client, world.now);
    assert_non_null(world.client.conn);
}

static void talk_for(uint32_t n, unsigned turns)
{
    for (unsigned i = 0; i < turns && (world.client.n < n || !world.client.opened) && !world.client.gone; i++) {
        turn(n);
    }
}

static uint64_t counted(int which, enum bt_tcp_counter c)
{
    return world.end[which].stack->counters()[c];
}

static void hear_all(uint32_t n)
{
    assert_false(world.client.gone);
    assert_int_equal(world.client.n, n);
    assert_memory_equal(world.client.got, world.said, n);
    assert_int_equal(world.talk[0].n, n);
}

static void echoes(bool v4)
{
    open_world(v4, false, false);
    dial();
    talk_for(sizeof world.said, 20000);
    hear_all(sizeof world.said);
    assert_int_equal(counted(SERVER, BT_TCP_ACCEPTED), 1);
    assert_int_equal(counted(SERVER, BT_TCP_RESENT) + counted(CLIENT, BT_TCP_RESENT), 0);
    world.end[CLIENT].stack->end(world.client.conn); // both ends close in peace
    for (unsigned i = 0; i < 100; i++) {
        turn(0);
    }
    assert_false(world.talk[0].gone);
    assert_null(world.talk[0].conn);
    assert_int_equal(world.end[SERVER].stack->open_now(), 0);
    close_world();
}

static void bytes_come_back_over_ipv4(void **state)
{
    (void)state;
    echoes(true);
}

static void bytes_come_back_over_ipv6(void **state)
{
    (void)state;
    echoes(false);
}

static void a_bad_wire_costs_time_only(void **state)
{
    uint64_t resent = 0, sums = 0, old = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS(20); seed++) {
        open_world(seed % 2 != 0, seed % 3 == 0, seed % 4 < 2);
        bt_rng_seed(&world.rng, seed);
        world.loss = 30;
        world.twice = 30;
        world.late = 100;
        world.damage = 20;
        dial();
        talk_for(60000, 4000000);
        hear_all(60000);
        resent += counted(SERVER, BT_TCP_RESENT) + counted(CLIENT, BT_TCP_RESENT);
        sums += counted(SERVER, BT_TCP_DROP_SUM);
        old += counted(SERVER, BT_TCP_DROP_OLD);
        close_world();
    }
    assert_true(resent > SEEDS(20));
    assert_true(sums > SEEDS(20));
    assert_true(old > SEEDS(20));
}

/* A SYN of anybody's: its checksum is not looked at. */
static void syn(uint32_t from, uint16_t port, const uint8_t *options, uint32_t n)
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

static void a_flood_of_syns_is_bounded(void **state)
{
    (void)state;
    open_world(true, false, false);
    dial();
    talk_for(1000, 1000); // somebody is there already
    for (uint32_t i = 0; i < 10000; i++) {
        syn(0xc0a80000u + i, (uint16_t)(1024 + i), NULL, 0);
        world.now += MS;
        arrive();
        bt_pool_put_chain(&world.end[SERVER].pool.pool, world.end[SERVER].out.head);
        bt_txq_init(&world.end[SERVER].out);
    }
    assert_int_equal(counted(SERVER, BT_TCP_HALF_OPEN_LOST), 10000 - BT_TCP_HALF_OPEN);
    assert_int_equal(world.end[SERVER].stack->open_now(), BT_TCP_HALF_OPEN + 1);
    world.client.holds = false;
    uint32_t before = world.client.n;
    talk_for(2000, 10000); // and is served
    assert_true(before >= 1000 && world.client.n == 2000);
    struct talk other = {.end = &world.end[CLIENT], .got = malloc(10), .room = 10};
    other.conn = world.end[CLIENT].stack->connect(&world.end[SERVER].at, &other, world.now);
    for (unsigned i = 0; i < 200 && !other.opened; i++) {
        turn(0); // a new one comes in, too
        bt_pool_put_chain(&world.end[SERVER].pool.pool, world.end[SERVER].out.head);
        bt_txq_init(&world.end[SERVER].out);
    }
    assert_true(other.opened);
    close_world();
    free(other.got);
}

static void who_asks_and_is_answered_gets_tokens(void **state)
{
    static const struct {
        bool asks, answers;
    } pairs[] = {{true, true}, {true, false}, {false, true}, {false, false}};
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        bool both = pairs[i].asks && pairs[i].answers;
        open_world(true, pairs[i].asks, pairs[i].answers);
        dial();
        talk_for(50000, 20000);
        hear_all(50000); // five tokens are no five bytes
        assert_int_equal(world.end[CLIENT].stack->tokens(world.client.conn), both);
        assert_int_equal(counted(SERVER, BT_TCP_FLOW_CONNS), both);
        assert_int_equal(world.client.signals != 0, both);
        assert_int_equal(world.client.signal, both ? 5 : 0);
        assert_int_equal(bt_tcp_flow_read(world.syn_ack + 20, world.syn_ack_len - 20),
                         both ? BT_TCP_FLOW_ASKED : BT_TCP_FLOW_NONE);
        world.end[SERVER].tells = 0; // F-31: it would be a deadlock
        talk_for(60000, 20000);
        hear_all(60000);
        assert_int_equal(world.client.signal, both ? (BT_FC_IDLE_BIT | BT_FC_PERIOD_US) : 0);
        close_world();
    }
}

static void what_is_asked_for_wrongly_is_not_given(void **state)
{
    uint8_t ours[BT_TCP_FLOW_PADDED], scaled[12] = {3, 3, 7, 1}, newer[BT_TCP_FLOW_PADDED], broken[4] = {253, 9, 0, 0};
    (void)state;
    open_world(true, false, true);
    bt_tcp_flow_write(ours);
    memcpy(scaled + 4, ours, sizeof ours);
    memcpy(newer, ours, sizeof newer);
    newer[4]++;
    syn(0xc0a80001u, 1, ours, sizeof ours);
    syn(0xc0a80001u, 2, scaled, sizeof scaled);
    syn(0xc0a80001u, 3, newer, sizeof newer);
    syn(0xc0a80001u, 4, broken, sizeof broken);
    world.now += MS;
    arrive();
    world.end[SERVER].stack->flush(world.now);
    static const bool given[] = {true, false, false, false};
    for (unsigned i = 0; i < 4; i++) {
        struct bt_pkt *p = bt_txq_pop(&world.end[SERVER].out);
        assert_non_null(p);
        bool there = bt_tcp_flow_read(p->data + 40, p->len - 40) == BT_TCP_FLOW_ASKED;
        assert_int_equal(bt_get16(p->data + 22), 1 + i);
        assert_int_equal(there, given[i]);
        assert_int_equal(bt_get16(p->data + 34), given[i] ? 5 : 65535); // a plain window, or tokens
        bt_pool_put(&world.end[SERVER].pool.pool, p);
    }
    assert_int_equal(counted(SERVER, BT_TCP_FLOW_REFUSED), 2);
    assert_int_equal(counted(SERVER, BT_TCP_BAD_OPTIONS), 1);
    close_world();
}

static void a_window_that_is_closed_is_probed(void **state)
{
    (void)state;
    open_world(true, false, false);
    world.talk[0].holds = true;
    dial();
    talk_for(200000, 60000);
    assert_true(world.talk[0].n >= 65535 - BT_TCP_MSS && world.talk[0].n <= 65535); // not a byte beyond
    assert_true(counted(SERVER, BT_TCP_PROBES) > 0);
    world.talk[0].holds = false;
    talk_for(200000, 60000);
    hear_all(200000);
    close_world();
}

/* A segment of the client's, its numbers moved. */
static void forge(uint32_t port, uint32_t seq, uint32_t ack)
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

static void what_is_outside_the_window_is_counted_and_dropped(void **state)
{
    (void)state;
    open_world(true, false, false);
    dial();
    talk_for(1000, 1000);
    uint32_t port = bt_get16(world.syn_ack + 2), next = bt_get32(world.syn_ack + 8) + 1000,
             ack = bt_get32(world.syn_ack + 4) + 1;
    forge(port, next + 100000, ack);
    forge(port, next - 500, ack);
    forge(port + 1, next, ack); // of no connection
    for (unsigned i = 0; i < 10; i++) {
        turn(1000);
    }
    assert_int_equal(counted(SERVER, BT_TCP_DROP_WINDOW), 1);
    assert_int_equal(counted(SERVER, BT_TCP_DROP_OLD), 1);
    assert_int_equal(counted(SERVER, BT_TCP_DROP_UNKNOWN), 1);
    hear_all(1000);
    close_world();
}

/* Many connections, each with segments that wait for one that does not come. */
static void segments_out_of_order_are_bounded(void **state)
{
    (void)state;
    open_world(true, false, false);
    dial();
    talk_for(1000, 1000);
    uint32_t port = bt_get16(world.syn_ack + 2), next = bt_get32(world.syn_ack + 8) + 1000,
             ack = bt_get32(world.syn_ack + 4) + 1;
    for (uint32_t i = 0; i < 3000; i++) {
        forge(port, next + 100 + 8 * i, ack);
        world.now += MS;
        arrive();
        bt_pool_put_chain(&world.end[SERVER].pool.pool, world.end[SERVER].out.head);
        bt_txq_init(&world.end[SERVER].out);
    }
    assert_true(BUFFERS - world.end[SERVER].pool.left <= 64); // of one connection
    talk_for(3000, 10000);
    assert_int_equal(world.client.n, 3000); // the holes are filled by what was said
    close_world();
}

static void copies_know_nothing_of_one_another(void **state)
{
    const struct bt_tcp_stack *all[BT_TCP_COPIES];
    (void)state;
    for (unsigned i = 0; i < BT_TCP_COPIES; i++) {
        all[i] = bt_tcp_stack_take();
        assert_non_null(all[i]);
        for (unsigned k = 0; k < i; k++) {
            assert_ptr_not_equal(all[i]->counters(), all[k]->counters());
        }
    }
    assert_null(bt_tcp_stack_take());
    for (unsigned i = 0; i < BT_TCP_COPIES; i++) {
        bt_tcp_stack_give(all[i]);
    }
}

int main(void)
{
    bt_rng_seed(&world.rng, 7);
    for (size_t i = 0; i < sizeof world.said; i++) {
        world.said[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_back_over_ipv4),
        cmocka_unit_test(bytes_come_back_over_ipv6),
        cmocka_unit_test(a_bad_wire_costs_time_only),
        cmocka_unit_test(a_flood_of_syns_is_bounded),
        cmocka_unit_test(who_asks_and_is_answered_gets_tokens),
        cmocka_unit_test(what_is_asked_for_wrongly_is_not_given),
        cmocka_unit_test(a_window_that_is_closed_is_probed),
        cmocka_unit_test(what_is_outside_the_window_is_counted_and_dropped),
        cmocka_unit_test(segments_out_of_order_are_bounded),
        cmocka_unit_test(copies_know_nothing_of_one_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
