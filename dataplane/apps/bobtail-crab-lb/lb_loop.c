// SPDX-License-Identifier: Apache-2.0
// The packet loop: SYNs out to servers, probes out and in, reports in.
#include "lb_app.h"

#include "shell/stop.h"
#include "tcp/crab_report.h"

#define PROBE_LOOK_NS UINT64_C(1000000)

static void send_to(struct lb_app *app, struct bt_pkt *pkt, const struct bt_addr *hop)
{
    pkt->dst = *hop;
    pkt->local = (uint16_t)app->opt.n_own;
    pkt->tx_as_src = 0;
    bt_txq_push(&app->txq, pkt);
}

static void send_probe(struct lb_app *app, const uint8_t *bytes, uint32_t n, const struct bt_addr *hop)
{
    struct bt_pkt *pkt = bt_pool_get(app->pool);
    uint8_t *to = pkt != NULL ? bt_pkt_append(pkt, n) : NULL;
    if (to != NULL) {
        memcpy(to, bytes, n);
        send_to(app, pkt, hop);
    } else if (pkt != NULL) {
        bt_pool_put(app->pool, pkt);
    }
}

static bool is_own(const struct lb_app *app, const struct bt_addr *a)
{
    return bt_addr_ip_eq(a, &app->opt.own[0]) || (app->opt.n_own > 1 && bt_addr_ip_eq(a, &app->opt.own[1]));
}

static void take_tcp(struct lb_app *app, uint64_t now, struct bt_pkt *pkt)
{
    struct bt_addr hop;
    uint32_t len;
    if (is_own(app, &pkt->dst)) {
        uint8_t answer[BT_CRAB_PROBE_MOST];
        len = bt_crab_prober_take(&app->prober, now, pkt->data, pkt->len, answer, &hop);
        bt_pool_put(app->pool, pkt);
        if (len != 0) {
            send_probe(app, answer, len, &hop);
        }
        return;
    }
    struct bt_crab_packet segment = {.p = pkt->data, .len = pkt->len, .room = pkt->room_after};
    if (!bt_crab_take(app->crab, now, &segment)) {
        bt_pool_put(app->pool, pkt);
        return;
    }
    uint32_t space = pkt->len + pkt->room_after;
    pkt->len = segment.len;
    pkt->room_after = space - segment.len;
    send_to(app, pkt, &segment.hop);
}

// A server takes part in the pool of each VIP with its port.
static void believe(struct lb_app *app, uint64_t now, const struct bt_addr *server, uint16_t port, uint32_t open)
{
    bool known = false;
    for (uint32_t v = 0; v < app->n_vips; v++) {
        if (app->pools[v] != NULL && app->vip_ports[v] == port) {
            known |= bt_crab_pool_report(app->pools[v], server, open, now);
        }
    }
    app->counters[known ? LB_REPORTS : LB_REPORT_STRANGER]++;
}

// The way back is the one it came.
static void answer(struct lb_app *app, const struct bt_pkt *to, const uint8_t *bytes, uint32_t n)
{
    struct bt_pkt *pkt = bt_pool_get(app->pool);
    uint8_t *at = pkt != NULL ? bt_pkt_append(pkt, n) : NULL;
    if (at == NULL) {
        if (pkt != NULL) {
            bt_pool_put(app->pool, pkt);
        }
        return; // it reports again, and is answered then
    }
    memcpy(at, bytes, n);
    pkt->dst = to->src;
    pkt->local = to->local;
    bt_txq_push(&app->txq, pkt);
}

// With a key, C-64 to C-66.
static void take_signed(struct lb_app *app, uint64_t now, const struct bt_pkt *pkt)
{
    static const enum lb_counter counter_of[] = {
        [BT_CRAB_REPORT_MALFORMED] = LB_REPORT_MALFORMED,
        [BT_CRAB_REPORT_UNSIGNED] = LB_REPORT_UNSIGNED,
        [BT_CRAB_REPORT_TAG] = LB_REPORT_TAG,
        [BT_CRAB_REPORT_SESSION] = LB_REPORT_SESSION,
        [BT_CRAB_REPORT_REPLAY] = LB_REPORT_REPLAY,
    };
    struct bt_crab_reported r;
    enum bt_crab_verdict verdict = bt_crab_judge_take(app->judge, now, pkt->data, pkt->len, &r);
    if (verdict == BT_CRAB_BELIEVED) {
        for (uint32_t i = 0; i < r.n; i++) {
            believe(app, now, &r.loads[i].server, r.loads[i].server.port, r.loads[i].open);
        }
        return;
    }
    app->counters[counter_of[verdict]]++;
    if (verdict == BT_CRAB_REPORT_SESSION) {
        answer(app, pkt, r.answer, sizeof r.answer);
    }
}

static void take_report(struct lb_app *app, uint64_t now, struct bt_pkt *pkt)
{
    struct bt_crab_load load;
    if (app->judge != NULL) {
        take_signed(app, now, pkt);
    } else if (bt_crab_report_read(pkt->data, pkt->len, &load)) {
        believe(app, now, &pkt->src, load.port, load.open);
    } else {
        app->counters[LB_REPORT_MALFORMED]++;
    }
    bt_pool_put(app->pool, pkt);
}

static void take_packets(struct lb_app *app)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    unsigned n, turns = 0;
    do {
        n = bt_io_rx(app->io, BT_IO_ANY, pkts, BT_IO_BATCH);
        uint64_t now = n != 0 ? bt_io_now(app->io) : 0;
        for (unsigned i = 0; i < n; i++) {
            if (pkts[i]->local == app->opt.n_own) {
                take_tcp(app, now, pkts[i]);
            } else {
                take_report(app, now, pkts[i]);
            }
        }
        bt_io_tx(app->io, &app->txq);
    } while (n == BT_IO_BATCH && ++turns < BT_IO_TURNS_BEFORE_TIMERS);
}

static void probe(struct lb_app *app, uint64_t now)
{
    uint8_t bytes[BT_CRAB_PROBE_MOST];
    struct bt_addr hop;
    uint32_t n;
    if (now < app->probe_look_ns) {
        return;
    }
    app->probe_look_ns = now + PROBE_LOOK_NS;
    while ((n = bt_crab_prober_send(&app->prober, now, bytes, &hop)) != 0) {
        send_probe(app, bytes, n, &hop);
    }
    bt_io_tx(app->io, &app->txq);
}

void lb_loop(struct lb_app *app)
{
    struct bt_io_event events[16];
    while (bt_stop_count() == 0) {
        bt_io_wait(app->io, app->probe_look_ns);
        take_packets(app);
        probe(app, bt_io_now(app->io));
        while (app->io->ops->events(app->io, events, 16) == 16) {
            continue; // unreachable servers show in the probes
        }
        bt_mailbox_poll(&app->mailbox);
    }
}
