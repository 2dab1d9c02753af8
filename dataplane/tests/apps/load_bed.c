// SPDX-License-Identifier: Apache-2.0
// See load_bed.h.
#include "load_bed.h"

#include "wire/r2p2.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct load_bed bed;

struct bt_addr load_bed_router(unsigned i)
{
    return bt_addr_v4u(0x7f000101 + i, 8000);
}

static void answer(const struct bt_pkt *request, const struct bt_r2p2_hdr *asked)
{
    struct bt_pkt *p = bt_pool_get(&bed.pool.pool);
    struct bt_r2p2_hdr h = {.type = bed.peer == PEER_DROPS ? BT_DROP : BT_REPLY,
                            .first = true,
                            .last = true,
                            .ext = asked->ext,
                            .req_id = asked->req_id,
                            .count_or_index = 1};
    size_t n = bed.peer == PEER_DROPS ? 0 : asked->payload_len - (bed.peer == PEER_SHORTENS);
    assert_non_null(p);
    if (n != 0) {
        uint8_t *at = bt_pkt_append(p, (uint32_t)n);
        memcpy(at, asked->payload, n);
        at[n - 1] ^= bed.peer == PEER_SPOILS;
    }
    assert_true(bt_r2p2_push_header(p, &h));
    p->src = request->dst;
    p->dst = request->src;
    p->local = request->local;
    p->t_rx_ns = bed.now + bed.takes_ns;
    bt_txq_push(&bed.answers, p);
}

static void bed_tx(struct bt_io *io, struct bt_txq *q)
{
    (void)io;
    for (struct bt_pkt *p; (p = bt_txq_pop(q)) != NULL;) {
        struct bt_r2p2_hdr h;
        assert_int_equal(bt_r2p2_decode(p->data, p->len, BT_ROLE_ANY, &h), BT_M_OK);
        if (h.type == BT_REQUEST) {
            assert_true(bed.sent < LOAD_SENT_MAX);
            bed.to[bed.sent] = p->dst;
            bed.by[bed.sent] = p->local;
            bed.when[bed.sent++] = bed.now;
            if (bed.peer != PEER_IS_SILENT) {
                answer(p, &h);
            }
        }
        bt_pool_put(&bed.pool.pool, p);
    }
}

static unsigned bed_rx(struct bt_io *io, uint32_t local, struct bt_pkt **pkts, unsigned max)
{
    unsigned n = 0;
    (void)io;
    assert_int_equal(local, BT_IO_ANY);
    while (n < max && bed.answers.head != NULL && bed.answers.head->t_rx_ns <= bed.now) {
        pkts[n++] = bt_txq_pop(&bed.answers);
    }
    return n;
}

static void bed_wait(struct bt_io *io, uint64_t until_ns)
{
    (void)io;
    uint64_t arrives = bed.answers.head != NULL ? bed.answers.head->t_rx_ns : UINT64_MAX;
    uint64_t next = until_ns < arrives ? until_ns : arrives;
    assert_true(++bed.waits < 100000); // it comes to an end
    bed.now = next > bed.now ? next : bed.now;
    if (bed.on_wait != NULL) {
        bed.on_wait(bed.waits);
    }
}

static uint64_t bed_now(struct bt_io *io)
{
    (void)io;
    return bed.now;
}

static void bed_wake(struct bt_io *io)
{
    (void)io;
}

static unsigned bed_events(struct bt_io *io, struct bt_io_event *ev, unsigned max)
{
    unsigned n = bed.events;
    (void)io;
    assert_true(max >= n);
    memcpy(ev, bed.event, n * sizeof *ev);
    bed.events = 0;
    return n;
}

static struct bt_addr bed_local(struct bt_io *io, uint32_t local)
{
    (void)io;
    return bed.local[local];
}

static const uint64_t *bed_counters(struct bt_io *io, const struct bt_counter_desc **desc, unsigned *n)
{
    static const struct bt_counter_desc descs[] = {{"udp_tx_total", NULL, NULL},
                                                   {"udp_tx_dropped_total", "reason", "too_long"},
                                                   {"udp_rx_dropped_total", "reason", "too_long"}};
    (void)io;
    *desc = descs;
    *n = 3;
    return bed.io_counter;
}

static const struct bt_io_ops bed_ops = {.rx = bed_rx,
                                         .tx = bed_tx,
                                         .wait = bed_wait,
                                         .now = bed_now,
                                         .wake = bed_wake,
                                         .events = bed_events,
                                         .local = bed_local,
                                         .counters = bed_counters};

// --- the network that connections.c opens: the linker puts these in the place of bt_network_io and bt_network_mtu

struct bt_io *__wrap_bt_network_io(struct bt_network *n, unsigned t, const struct bt_network_ports *ports, char *err,
                                   size_t errlen);
bool __wrap_bt_network_mtu(const struct bt_network *n, uint32_t asked, uint16_t *mtu);

struct bt_io *__wrap_bt_network_io(struct bt_network *n, unsigned t, const struct bt_network_ports *ports, char *err,
                                   size_t errlen)
{
    (void)n;
    assert_int_equal(t, 0);
    assert_true(ports->report_unreachable);
    assert_true(bed.ports_asked < LOAD_SENT_MAX);
    bed.first_port[bed.ports_asked++] = ports->locals[0].port;
    memcpy(bed.local, ports->locals, ports->n * sizeof *ports->locals);
    snprintf(err, errlen, "somebody has it");
    return bed.ports_asked > bed.ports_taken ? &bed.io : NULL;
}

bool __wrap_bt_network_mtu(const struct bt_network *n, uint32_t asked, uint16_t *mtu)
{
    (void)n;
    *mtu = (uint16_t)(asked != 0 ? asked : bed.mtu);
    return !bed.mtu_refused;
}

// --- the bed

void load_bed_new(void)
{
    memset(&bed, 0, sizeof bed);
    bed.io.ops = &bed_ops;
    bed.now = 1000 * MS;
    bed.takes_ns = MS;
    bed.mtu = 1400;
    bed.app.opt = (struct load_options){.target = "routers",
                                        .address = "127.0.0.1",
                                        .rate = 1000,
                                        .arrivals = ARRIVALS_FIXED,
                                        .duration_ns = 100 * MS,
                                        .timeout_ns = 10 * MS,
                                        .request_bytes = 16,
                                        .port_base = 20000,
                                        .pending = 64,
                                        .max_message = 1464,
                                        .seed = 4};
    bed.app.opt.verify = true;
}

bool load_bed_try(unsigned connections, unsigned routers)
{
    struct load_app *app = &bed.app;
    assert_true(bt_pool_mapped_open(&bed.pool, 4096));
    bt_rng_seed(&app->rng, app->opt.seed);
    bt_txq_init(&app->txq);
    bt_txq_init(&bed.answers);
    app->pool = &bed.pool.pool;
    app->opt.connections = connections;
    app->list.n = routers;
    for (unsigned i = 0; i < routers; i++) {
        app->list.addr[i] = load_bed_router(i);
    }
    pthread_mutex_init(&app->resolver.lock, NULL);
    return load_connections_open(app);
}

void load_bed_open(unsigned connections, unsigned routers)
{
    assert_true(load_bed_try(connections, routers));
}

void load_bed_close(void)
{
    struct load_app *app = &bed.app;
    for (unsigned i = 0; i < app->opt.connections; i++) {
        if (app->conn[i].client != NULL) {
            bt_client_close(app->conn[i].client, bed.now);
        }
    }
    for (struct bt_pkt *p; (p = bt_txq_pop(&bed.answers)) != NULL;) {
        bt_pool_put(&bed.pool.pool, p);
    }
    assert_int_equal(app->outstanding, 0);
    assert_int_equal(app->ended_twice, 0);
    assert_int_equal(bed.pool.in_use, 0);
    if (app->records != NULL) {
        munmap(app->records, app->n_records * sizeof *app->records);
    }
    free(app->body);
    free(app->reply);
    pthread_mutex_destroy(&app->resolver.lock);
    bt_pool_mapped_close(&bed.pool);
}

void load_bed_send(uint64_t late)
{
    load_send_one(&bed.app, bed.now - late, bed.now);
    bt_io_tx(&bed.io, &bed.app.txq);
}

void load_bed_pass(uint64_t ns)
{
    struct bt_pkt *p[BT_IO_BATCH];
    bed.now += ns;
    unsigned n = bed_rx(&bed.io, BT_IO_ANY, p, BT_IO_BATCH);
    for (unsigned i = 0; i < n; i++) {
        bt_client_rx(bed.app.conn[p[i]->local].client, p[i]->t_rx_ns, p[i], &bed.app.txq);
    }
    for (unsigned i = 0; i < bed.app.opt.connections; i++) {
        bt_client_tick(bed.app.conn[i].client, bed.now, &bed.app.txq);
    }
    bt_io_tx(&bed.io, &bed.app.txq);
}
