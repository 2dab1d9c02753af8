// SPDX-License-Identifier: Apache-2.0
// The load loop: requests leave when they are due, replies are taken in between.
#include "load_app.h"

#include "shell/log.h"
#include "shell/stop.h"

#include <math.h>

enum { SENDS_PER_TURN = 64, EVENTS = 32 };

#define SECOND UINT64_C(1000000000)

static uint64_t gap(struct load_app *app)
{
    double mean = 1e9 / app->opt.rate;
    if (app->opt.arrivals == ARRIVALS_FIXED) {
        return (uint64_t)mean;
    }
    return (uint64_t)(-mean * log(1 - bt_rng_unit(&app->rng)));
}

// Sends what is due, at most a batch, so that replies are not kept waiting when we are late.
static void send_due(struct load_app *app)
{
    uint64_t now = bt_io_now(app->io);
    for (unsigned i = 0; i < SENDS_PER_TURN && !app->stopping && app->due_ns <= now; i++) {
        if (app->due_ns >= app->end_ns) {
            app->stopping = true;
            return;
        }
        load_send_one(app, app->due_ns, now);
        app->due_ns += gap(app);
    }
}

// True when there may be more.
static bool take_replies(struct load_app *app)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    struct bt_io_event ev[EVENTS];
    unsigned n = bt_io_rx(app->io, BT_IO_ANY, pkts, BT_IO_BATCH);
    for (unsigned i = 0; i < n; i++) {
        bt_client_rx(app->conn[pkts[i]->local].client, pkts[i]->t_rx_ns, pkts[i], &app->txq);
    }
    unsigned events = app->io->ops->events(app->io, ev, EVENTS);
    for (unsigned i = 0; i < events; i++) {
        load_connections_unreachable(app, &ev[i]);
    }
    return n == BT_IO_BATCH;
}

// Runs timers that are due and returns when to look again.
static uint64_t tick(struct load_app *app, uint64_t now)
{
    uint64_t next = app->stopping ? UINT64_MAX : app->due_ns;
    for (unsigned i = 0; i < app->opt.connections; i++) {
        struct bt_client *c = app->conn[i].client;
        if (bt_client_next(c) <= now) {
            bt_client_tick(c, now, &app->txq);
        }
        uint64_t due = bt_client_next(c);
        next = due < next ? due : next;
    }
    return next;
}

static void look_around(struct load_app *app)
{
    uint64_t now = bt_io_now(app->io);
    bt_mailbox_poll(&app->mailbox);
    if (load_resolver_take(&app->resolver, &app->list_version, &app->list)) {
        load_connections_update(app);
    }
    if (now >= app->second_ns + SECOND) {
        load_report_second(app, now);
    }
    if (bt_stop_count() > 0 && !app->stopping) {
        app->stopping = true;
        app->end_ns = now;
        bt_log_info("stopping: waiting for answers; once more to stop at once");
    }
}

void load_loop(struct load_app *app)
{
    uint64_t now = bt_io_now(app->io);
    app->start_ns = app->second_ns = app->progress_at_ns = now;
    app->measure_ns = now + app->opt.warmup_ns;
    app->end_ns = app->measure_ns + app->opt.duration_ns;
    app->due_ns = now + gap(app);
    uint64_t until = app->due_ns;
    unsigned packet_turns = 0; // in a row, that left packets behind
    while (!(app->stopping && app->outstanding == 0) && bt_stop_count() < 2) {
        uint64_t second = app->second_ns + SECOND;
        bt_io_wait(app->io, until < second ? until : second);
        uint64_t looked = bt_io_now(app->io);
        bool more = take_replies(app);
        send_due(app);
        // After a pause of ours, replies that are here already must not time out.
        now = bt_io_now(app->io);
        packet_turns = more || now - looked > BT_IO_PAUSE_NS ? packet_turns + 1 : 0;
        until = packet_turns % BT_IO_TURNS_BEFORE_TIMERS != 0 ? 0 : tick(app, now);
        bt_io_tx(app->io, &app->txq);
        look_around(app);
    }
    for (unsigned i = 0; i < app->opt.connections; i++) {
        bt_client_close(app->conn[i].client, bt_io_now(app->io));
    }
    load_report_second(app, bt_io_now(app->io));
}
