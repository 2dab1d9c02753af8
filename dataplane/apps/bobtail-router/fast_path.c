// SPDX-License-Identifier: Apache-2.0
// See fast_path.h.
#include "router_app.h"

#include "fast/fast.h"
#include "shell/log.h"

#include <stdio.h>

// Reasons come and go with the load; the log hears of them so often at most.
#define SAY_NS UINT64_C(10000000000)

// What state and metrics say where there is no program.
#define NOT_LOADED "NotLoaded"

static bool unwanted(struct router_app *app, const char *why)
{
    snprintf(app->fast_missing, sizeof app->fast_missing, "%s", why);
    if (app->opt.fast_path == FAST_PATH_REQUIRE) {
        bt_log_error("--fast-path=require: %s", why);
        return false;
    }
    bt_log_warn("no fast path, every packet goes through the sockets: %s", why);
    return true;
}

bool fast_path_open(struct router_app *app, const struct bt_addr local[2])
{
    char why[256];
    if (app->opt.fast_path == FAST_PATH_OFF) {
        return true;
    }
    if (app->opt.threads == 2) {
        return unwanted(app, "it goes with --threads=1 only");
    }
    if (app->opt.network.driver != BT_NETWORK_UDP) {
        return unwanted(app, "it goes with --driver=udp only");
    }
    const struct bt_fast_setup setup = {.request = local[0], .feedback = local[1]};
    app->fast = bt_fast_new(&setup, why, sizeof why);
    if (app->fast == NULL) {
        return unwanted(app, why);
    }
    bt_log_info("fast path: program attached to %s", bt_fast_device(app->fast));
    app->fast_said = BT_LEND_REASONS; // nothing yet
    return true;
}

void fast_path_close(struct router_app *app)
{
    bt_fast_free(app->fast);
    app->fast = NULL;
}

void fast_path_take_back(struct router_app *app)
{
    if (app->fast != NULL && bt_fast_lent(app->fast)) {
        bt_fast_take_back(app->fast, app->router, bt_io_now(app->io), &app->txq);
    }
}

void fast_path_packets(struct router_app *app, unsigned n)
{
    if (app->fast != NULL && n > 0) {
        app->fast_sockets[bt_fast_why_not(app->fast)] += n;
        fast_path_take_back(app);
    }
}

void fast_path_read(struct router_app *app)
{
    if (app->fast != NULL) {
        bt_fast_read(app->fast, app->router, &app->txq);
    }
}

__attribute__((noinline, cold)) static void say_why(struct router_app *app, enum bt_lend why, uint64_t now)
{
    bt_log_info("fast path: %s", bt_lend_reasons[why].text);
    app->fast_said = why;
    app->fast_said_ns = now;
}

static void say(struct router_app *app, uint64_t now)
{
    enum bt_lend why = bt_fast_why_not(app->fast);
    bool known = bt_fast_lent(app->fast) || why != BT_LEND_YES;
    if (known && why != app->fast_said && now >= app->fast_said_ns + SAY_NS) {
        say_why(app, why, now);
    }
}

void fast_path_turn(struct router_app *app, uint64_t now)
{
    if (app->fast != NULL) {
        bt_fast_turn(app->fast, app->router, now, &app->txq);
        say(app, now);
    }
}

uint64_t fast_path_next(const struct router_app *app, uint64_t now, uint64_t until)
{
    if (app->fast == NULL) {
        return until;
    }
    uint64_t turn = bt_fast_next(app->fast, now);
    return turn < until ? turn : until;
}

void fast_path_counters(const struct router_app *app, struct bt_ctl_samples *out)
{
    bt_ctl_add_gauge(out, "router_fast_path", app->fast != NULL);
    if (app->fast == NULL) {
        return;
    }
    bt_ctl_add_gauge(out, "router_fast_path_active", fast_path_state(app).active);
    uint64_t values[BT_FAST_COUNTERS];
    bt_fast_counters(app->fast, values);
    bt_ctl_add_counters(out, bt_fast_counter_descs, values, BT_FAST_COUNTERS);
    for (unsigned i = 0; i < BT_LEND_REASONS; i++) {
        // A loan had just ended, by this packet or one shortly before it.
        const char *why = i == BT_LEND_YES ? "Between" : bt_lend_reasons[i].word;
        const struct bt_counter_desc desc = {"router_fast_path_sockets_total", "reason", why};
        bt_ctl_add_counters(out, &desc, &app->fast_sockets[i], 1);
    }
}

struct bt_ctl_fast_path fast_path_state(const struct router_app *app)
{
    if (app->opt.fast_path == FAST_PATH_OFF) {
        return (struct bt_ctl_fast_path){.reason = NULL};
    }
    if (app->fast == NULL) {
        return (struct bt_ctl_fast_path){.reason = NOT_LOADED, .message = app->fast_missing};
    }
    enum bt_lend why = bt_fast_judge(app->fast, app->router);
    // Held requests are of the moment: the counters tell of them.
    why = why == BT_LEND_HELD ? BT_LEND_YES : why;
    return (struct bt_ctl_fast_path){
        .active = why == BT_LEND_YES, .reason = bt_lend_reasons[why].word, .message = bt_lend_reasons[why].text};
}
