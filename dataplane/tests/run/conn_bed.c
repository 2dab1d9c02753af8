// SPDX-License-Identifier: Apache-2.0
// See conn_bed.h.
#include "conn_bed.h"

#include <string.h>

#include "base/bytes.h"

struct conn_bed bed;

static uint32_t to_say;

static unsigned port_rx(struct bt_io *io, uint32_t local, struct bt_pkt **pkts, unsigned max)
{
    struct bed_port *p = (struct bed_port *)io;
    unsigned n = p->n_in < max ? p->n_in : max;
    (void)local;
    memcpy(pkts, p->in, n * sizeof *pkts);
    p->n_in -= n;
    memmove(p->in, p->in + n, p->n_in * sizeof *p->in);
    p->took += n;
    return n;
}

static void port_tx(struct bt_io *io, struct bt_txq *q)
{
    struct bed_port *p = (struct bed_port *)io;
    for (struct bt_pkt *pkt; (pkt = bt_txq_pop(q)) != NULL;) {
        uint32_t ip = pkt->data[0] >> 4 == 4 ? 20 : 40;
        p->bytes += pkt->len - ip - 4u * (pkt->data[ip + 12] >> 4);
        p->sent++;
        bt_txq_push(&world.end[SERVER].out, pkt);
    }
}

static uint64_t port_now(struct bt_io *io)
{
    (void)io;
    return world.now;
}

static uint64_t port_next(struct bt_io *io)
{
    return ((struct bed_port *)io)->due;
}

static const uint64_t *port_counters(struct bt_io *io, const struct bt_counter_desc **desc, unsigned *n)
{
    static const struct bt_counter_desc names[2] = {{"a", NULL, NULL}, {"b", NULL, NULL}};
    *desc = names;
    *n = 2;
    return ((struct bed_port *)io)->counts;
}

static void handle(void *arg, struct bobtail_request *request)
{
    int n;
    uint8_t head[5] = {0};
    struct bobtail_bytes much[100];
    (void)arg;
    bed.handled++;
    assert_int_equal(bobtail_request_copy(request, head, sizeof head), sizeof head);
    const struct bobtail_bytes *piece = bobtail_request_bytes(request, &n);
    if (head[4] == SLOW) {
        for (uint64_t began = run_clock_ns(); run_clock_ns() - began < 20000;) {
        }
    }
    if (head[4] == MUCH) {
        for (unsigned i = 0; i < 100; i++) {
            much[i] = piece[0];
        }
        bobtail_reply_pieces(request, much, 100);
    } else if (head[4] != NOTHING) {
        bobtail_reply_pieces(request, piece, n);
    }
}

static void takes(struct bt_pkt *pkt)
{
    struct bed_port *p = &bed.port[0];
    assert_true(p->n_in < FLIGHT);
    pkt->local = BT_RUN_TCP_LOCAL;
    p->in[p->n_in++] = pkt;
}

static void plays(void)
{
    for (uint32_t i = 0; bed.run != NULL && i < bed.run->setup.threads; i++) {
        assert_true(bt_sched_take(bed.run->lane[0].sched, i));
        run_home_turn(&bed.run->home[i], NULL, true);
        if (bed.executes) {
            run_core_some(&bed.run->core[i], 16);
        }
    }
}

static struct bt_run *open_server(const struct bed_options *o, char *why, size_t n)
{
    static const struct bt_io_ops ops = {
        .rx = port_rx, .tx = port_tx, .now = port_now, .next = port_next, .counters = port_counters};
    static struct bt_io *const io[PORTS] = {&bed.port[0].io, &bed.port[1].io};
    bed = (struct conn_bed){.executes = true};
    for (unsigned i = 0; i < PORTS; i++) {
        bed.port[i] = (struct bed_port){.io = {&ops}, .due = UINT64_MAX, .counts = {3 + 7 * i, 5 + 15 * i}};
    }
    struct bt_run_tcp own = {.local = world.end[SERVER].at,
                             .framing = BT_FRAMING_U32,
                             .max_message = MOST * 100,
                             .connections = o->connections != 0 ? o->connections : CONNECTIONS,
                             .wire = &bt_run_wire_stack,
                             .io = io,
                             .pool = &world.end[SERVER].pool.pool,
                             .mtu = 1500,
                             .flow = o->flow};
    struct bt_run_setup setup = {.mode = BT_SCHED_RUN_TO_COMPLETION,
                                 .threads = o->threads != 0 ? o->threads : 1,
                                 .batch = o->batch != 0 ? o->batch : 64,
                                 .loop_ns = 50000,
                                 .seed = 1,
                                 .name = "conns",
                                 .handler = handle,
                                 .tcp = &own};
    return bt_run_open(&setup, why, n);
}

void begin_bed(struct bed_options o)
{
    char why[256] = "";
    if (o.flow != NULL) { // its tokens follow the machine's clock
        world.now = run_clock_ns() - 1000 * MS;
    }
    open_client(!o.v6, o.asks, (struct player){takes, plays});
    say_nothing();
    bed.run = open_server(&o, why, sizeof why);
    if (bed.run == NULL) {
        fail_msg("%s", why);
    }
}

void refused_bed(uint32_t connections, const char *words)
{
    char why[256] = "";
    struct bed_options o = {.connections = connections};
    open_client(true, false, (struct player){takes, plays});
    assert_null(open_server(&o, why, sizeof why));
    assert_string_equal(why, words);
    close_world();
}

void close_server(void)
{
    if (bed.run != NULL) {
        bt_run_close(bed.run);
    }
    bed.run = NULL;
}

void end_bed(void)
{
    close_server();
    for (unsigned i = 0; i < bed.port[0].n_in; i++) {
        bt_pool_put(&world.end[SERVER].pool.pool, bed.port[0].in[i]);
    }
    close_world();
}

uint32_t ask_for(char mark, uint32_t n)
{
    assert_true(n >= 1 && to_say + 4 + n <= sizeof world.said);
    bt_put32(world.said + to_say, n);
    for (uint32_t i = 0; i < n; i++) {
        world.said[to_say + 4 + i] = (uint8_t)(to_say + i);
    }
    world.said[to_say + 4] = (uint8_t)mark;
    to_say += 4 + n;
    return to_say;
}

void say_nothing(void)
{
    to_say = 0;
}

void turns(unsigned n)
{
    while (n-- > 0) {
        turn(to_say);
    }
}

void all_came_back(uint32_t n)
{
    talk_for(n, 20000); // enough for anything
    assert_int_equal(world.client.n, n);
    assert_memory_equal(world.client.got, world.said, n);
}

uint64_t run_counted(enum bt_run_tcp_counter which)
{
    uint64_t counts[BT_RUN_TCP_COUNTERS];
    bt_run_read_tcp(bed.run, counts);
    return counts[which];
}

uint64_t stack_counted(enum bt_tcp_counter which)
{
    uint64_t counts[BT_TCP_COUNTERS];
    bt_run_read_stacks(bed.run, counts);
    return counts[which];
}

struct run_tcp *tcp(void)
{
    return bed.run->home[0].tcp;
}

struct run_conn *conn(uint32_t i)
{
    return &tcp()->conn[i];
}
