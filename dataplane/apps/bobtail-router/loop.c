// SPDX-License-Identifier: Apache-2.0
// The router's packet loop: FEEDBACK before requests, at most 64 packets at a time
// then timers, sends and whatever the control thread wants.
#include "router_app.h"

#include "shell/log.h"
#include "shell/stop.h"

// FEEDBACK goes first, but a flood of it must not stop requests for ever.
enum { FEEDBACK_ROUNDS = 8, EVENTS = 32 };

#define DRAIN_LOOK_NS      UINT64_C(50000000)
#define FEEDBACK_LATEST_NS UINT64_C(10000000)

static void take_feedback(struct router_app *app)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    for (unsigned round = 0; round < FEEDBACK_ROUNDS; round++) {
        unsigned n = bt_io_rx(app->io, BT_ROUTER_PORT_FEEDBACK, pkts, BT_IO_BATCH);
        fast_path_packets(app, n);
        bt_router_feedbacks(app->router, pkts, n, &app->txq);
        if (n < BT_IO_BATCH) {
            return;
        }
    }
}

static void take_requests(struct router_app *app)
{
    if (app->two.running) {
        router_threads_requests(&app->two, &app->txq);
        return;
    }
    struct bt_pkt *pkts[BT_IO_BATCH];
    unsigned n = bt_io_rx(app->io, BT_ROUTER_PORT_REQUEST, pkts, BT_IO_BATCH);
    fast_path_packets(app, n);
    bt_router_requests(app->router, pkts, n, &app->txq);
}

static void take_events(struct router_app *app)
{
    struct bt_io_event ev[EVENTS];
    unsigned n = app->io->ops->events(app->io, ev, EVENTS);
    for (unsigned i = 0; i < n; i++) {
        bt_router_unreachable(app->router, bt_io_now(app->io), &ev[i].peer);
    }
}

// What the control thread wants needs both halves of a router on two threads.
static void take_letter(struct router_app *app)
{
    bool stop = bt_mailbox_due(&app->mailbox);
    if (stop) {
        fast_path_take_back(app);
        router_threads_pause(&app->two);
    }
    bt_mailbox_poll(&app->mailbox);
    if (stop) {
        router_threads_resume(&app->two);
    }
}

struct drain {
    bool asked;
    uint64_t deadline_ns;
};

// Somebody asked for the end, so many times. True when the loop may.
__attribute__((noinline, cold)) static bool wind_up(struct router_app *app, struct drain *d, unsigned signals)
{
    uint64_t now = bt_io_now(app->io);
    if (!d->asked) {
        d->asked = true;
        d->deadline_ns = now + (uint64_t)app->opt.drain_seconds * 1000000000u;
        bt_router_drain(app->router, now);
        bt_log_info("draining: forwarding until no request came for a while, at most %u s", app->opt.drain_seconds);
    }
    if (bt_router_drained(app->router, now, app->opt.drain_quiet_ns)) {
        bt_log_info("drained");
        return true;
    }
    if (now >= d->deadline_ns || signals > 1) {
        bt_log_warn("stopping with requests still coming");
        return true;
    }
    return false;
}

static bool may_stop(struct router_app *app, struct drain *d)
{
    unsigned signals = bt_stop_count();
    return signals != 0 && wind_up(app, d, signals);
}

// A FEEDBACK frees a credit. While no request waits for one, nobody is served by waking for it: it is
// taken before the next request is, or so much later, well before anything its worker did not
// do looks late. `now` may be as old as the last turn.
static uint64_t wake_for_feedback(struct router_app *app, uint64_t now, uint64_t until)
{
    bool wanted = bt_router_holds(app->router);
    bt_io_quiet(app->io, BT_ROUTER_PORT_FEEDBACK, !wanted);
    uint64_t latest = now + FEEDBACK_LATEST_NS;
    return wanted || until < latest ? until : latest;
}

static void wait_for_work(struct router_app *app, uint64_t now, uint64_t until)
{
    if (app->two.running) {
        router_threads_wait(&app->two, until);
    } else {
        bt_io_wait(app->io, wake_for_feedback(app, now, until));
        take_feedback(app);
    }
}

void router_loop(struct router_app *app)
{
    struct drain drain = {0};
    uint64_t now = bt_io_now(app->io);
    while (!may_stop(app, &drain)) {
        uint64_t until = bt_router_next(app->router);
        if (drain.asked) {
            uint64_t look = now + DRAIN_LOOK_NS;
            until = until < look ? until : look;
        }
        wait_for_work(app, now, fast_path_next(app, now, until));
        take_requests(app);
        now = bt_io_now(app->io);
        fast_path_read(app);
        bt_router_tick(app->router, now, &app->txq);
        bt_io_tx(app->io, &app->txq);
        take_events(app);
        take_letter(app);
        fast_path_turn(app, now);
    }
}
