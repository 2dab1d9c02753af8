// SPDX-License-Identifier: Apache-2.0
// What the generator prints: a line per second for the impatient, a JSON line per second for
// plots, and the result as a table or as one JSON object.
#include "load_app.h"

#include "ctl/ctl_internal.h"
#include "ctl/json_out.h"

#include <inttypes.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t per_100k;
} percentiles[] = {{"50", 50000}, {"90", 90000}, {"95", 95000}, {"99", 99000}, {"99.9", 99900}, {"99.99", 99990}};

enum { PERCENTILES = sizeof percentiles / sizeof percentiles[0] };

// JSON has no infinity: a percentile that lies among the unanswered is null.
static void put_percentile(struct bt_json_out *o, const char *key, const struct bt_hist *h, uint32_t per_100k)
{
    uint64_t ns = bt_hist_percentile(h, per_100k);
    bt_json_out_double(o, key, ns == BT_HIST_INF ? (double)__builtin_inff() : (double)ns / 1e3);
}

static const char *text_percentile(const struct bt_hist *h, uint32_t per_100k, char buf[32])
{
    uint64_t ns = bt_hist_percentile(h, per_100k);
    if (ns == BT_HIST_INF) {
        return "unanswered";
    }
    snprintf(buf, 32, "%.1f us", (double)ns / 1e3);
    return h->total != 0 ? buf : "-";
}

static void slice_line(struct load_app *app, uint64_t now)
{
    struct bt_json_out o = {0};
    const struct load_tally *t = &app->second;
    bt_json_out_open(&o, NULL, '{');
    bt_json_out_double(&o, "second", (double)(now - app->start_ns) / 1e9);
    bt_json_out_u64(&o, "offered", t->offered);
    bt_json_out_u64(&o, "sent", t->sent);
    bt_json_out_u64(&o, "completed", t->completed);
    bt_json_out_u64(&o, "dropped", t->dropped);
    bt_json_out_u64(&o, "timeouts", t->timeouts);
    bt_json_out_u64(&o, "errors", t->errors);
    bt_json_out_u64(&o, "outstanding", app->outstanding);
    put_percentile(&o, "p50Microseconds", &app->second_hist, 50000);
    put_percentile(&o, "p99Microseconds", &app->second_hist, 99000);
    bt_json_out_close(&o, '}');
    if (!o.overflow) {
        fprintf(app->slices_file, "%s\n", o.text);
        fflush(app->slices_file);
    }
    bt_json_out_free(&o);
}

void load_report_second(struct load_app *app, uint64_t now)
{
    const struct load_tally *t = &app->second;
    char p50[32];
    char p99[32];
    if (app->slices_file != NULL) {
        slice_line(app, now);
    }
    if (app->opt.progress_ns != 0 && now - app->progress_at_ns >= app->opt.progress_ns) {
        app->progress_at_ns = now;
        fprintf(stderr,
                "%5.0f s  offered %" PRIu64 "  completed %" PRIu64 "  dropped %" PRIu64 "  timeouts %" PRIu64
                "  p50 %s  p99 %s\n",
                (double)(now - app->start_ns) / 1e9, t->offered, t->completed, t->dropped, t->timeouts,
                text_percentile(&app->second_hist, 50000, p50), text_percentile(&app->second_hist, 99000, p99));
    }
    memset(&app->second, 0, sizeof app->second);
    bt_hist_clear(&app->second_hist);
    app->second_ns = now;
}

static uint64_t lost(const struct load_tally *t)
{
    return t->offered - t->completed - t->dropped - t->held;
}

static double window_seconds(const struct load_app *app)
{
    return app->end_ns > app->measure_ns ? (double)(app->end_ns - app->measure_ns) / 1e9 : 0;
}

static double achieved(const struct load_app *app)
{
    double s = window_seconds(app);
    return s > 0 ? (double)app->tally.completed / s : 0;
}

static void print_routers(struct bt_json_out *o, const struct load_app *app)
{
    char text[BT_ADDR_TEXT];
    bt_json_out_open(o, "routers", '[');
    for (unsigned i = 0; i < app->n_routers; i++) {
        const struct load_router_tally *r = &app->routers[i];
        bt_json_out_open(o, NULL, '{');
        bt_json_out_string(o, "address", bt_addr_format(&r->addr, text));
        bt_json_out_u64(o, "sent", r->sent);
        bt_json_out_u64(o, "completed", r->completed);
        bt_json_out_u64(o, "dropped", r->dropped);
        bt_json_out_u64(o, "timeouts", r->timeouts);
        bt_json_out_close(o, '}');
    }
    bt_json_out_close(o, ']');
}

static const char *const code_names[16] = {
    [3] = "replyIncomplete", [4] = "noBuffer", [5] = "cancelled",  [6] = "tableFull",
    [7] = "noRequestId",     [8] = "tooLarge", [9] = "badArgument"};

static void print_json(const struct load_app *app)
{
    struct bt_json_out o = {0};
    const struct load_tally *t = &app->tally;
    bt_json_out_open(&o, NULL, '{');
    bt_json_out_u64(&o, "offered", t->offered);
    bt_json_out_u64(&o, "sent", t->sent);
    bt_json_out_u64(&o, "completed", t->completed);
    bt_json_out_u64(&o, "dropped", t->dropped);
    bt_json_out_u64(&o, "degraded", t->degraded);
    bt_json_out_u64(&o, "heldBack", t->held);
    bt_json_out_u64(&o, "timeouts", t->timeouts);
    bt_json_out_u64(&o, "errors", t->errors);
    bt_json_out_u64(&o, "lost", lost(t));
    bt_json_out_double(&o, "achievedRps", achieved(app));
    bt_json_out_open(&o, "percentilesMicroseconds", '{');
    for (unsigned i = 0; i < PERCENTILES && app->hist.total != 0; i++) {
        put_percentile(&o, percentiles[i].name, &app->hist, percentiles[i].per_100k);
    }
    bt_json_out_close(&o, '}');
    bt_ctl_reply_histogram(&o, "histogram", &app->hist);
    bt_json_out_double(&o, "windowSeconds", window_seconds(app));
    bt_json_out_u64(&o, "routerMoves", app->moves);
    bt_json_out_u64(&o, "resolveFailures", app->resolver.failures); // its thread has ended
    bt_json_out_u64(&o, "corrupt", app->corrupt);
    bt_json_out_u64(&o, "endedTwice", app->ended_twice);
    bt_json_out_u64(&o, "unended", app->outstanding);
    bt_json_out_u64(&o, "mtu", app->mtu);
    bt_json_out_u64(&o, "packetsTooLong", load_connections_too_long(app));
    bt_json_out_u64(&o, "seed", app->opt.seed);
    bt_json_out_open(&o, "errorCodes", '{');
    for (unsigned i = 0; i < 16; i++) {
        if (app->error_codes[i] != 0) {
            bt_json_out_u64(&o, code_names[i] != NULL ? code_names[i] : "other", app->error_codes[i]);
        }
    }
    bt_json_out_close(&o, '}');
    print_routers(&o, app);
    bt_json_out_close(&o, '}');
    printf("%s\n", o.overflow ? "" : o.text);
    bt_json_out_free(&o);
}

static void print_table(const struct load_app *app)
{
    const struct load_tally *t = &app->tally;
    char text[BT_ADDR_TEXT];
    printf("offered    %12" PRIu64 "   (%.1f/s for %.1f s)\n", t->offered, app->opt.rate, window_seconds(app));
    printf("sent       %12" PRIu64 "\n", t->sent);
    printf("completed  %12" PRIu64 "   (%.1f/s)\n", t->completed, achieved(app));
    if (t->degraded != 0) {
        printf("degraded   %12" PRIu64 "   of the completed: marked on their way\n", t->degraded);
    }
    if (app->opt.flow_control) {
        printf("held back  %12" PRIu64 "   not sent: they would probably have waited for too long\n", t->held);
    }
    printf("dropped    %12" PRIu64 "   refused by router or server, not executed\n", t->dropped);
    printf("timeouts   %12" PRIu64 "\n", t->timeouts);
    printf("errors     %12" PRIu64 "\n", t->errors);
    printf("lost       %12" PRIu64 "   offered - completed - dropped%s\n", lost(t),
           app->opt.flow_control ? " - held back" : "");
    for (unsigned i = 0; i < PERCENTILES; i++) {
        char buf[32];
        printf("p%-9s %15s\n", percentiles[i].name, text_percentile(&app->hist, percentiles[i].per_100k, buf));
    }
    printf("\n%-28s %10s %10s %10s %10s\n", "router", "sent", "completed", "dropped", "timeouts");
    for (unsigned i = 0; i < app->n_routers; i++) {
        const struct load_router_tally *r = &app->routers[i];
        printf("%-28s %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 "\n", bt_addr_format(&r->addr, text),
               r->sent, r->completed, r->dropped, r->timeouts);
    }
    printf("moves to another router: %" PRIu64 "; seed %" PRIu64 "\n", app->moves, app->opt.seed);
    if (app->resolver.failures != 0) {
        printf("failed look-ups of %s: %u; the last list stayed in use\n", app->opt.target, app->resolver.failures);
    }
    if (load_connections_too_long(app) != 0) {
        printf("packets the network does not take: %" PRIu64 " of up to %u bytes; lower --mtu\n",
               load_connections_too_long(app), app->mtu);
    }
    if (app->corrupt != 0) {
        printf("corrupt replies: %" PRIu64 "\n", app->corrupt);
    }
    if (app->ended_twice != 0 || app->outstanding != 0) {
        printf("requests that ended twice: %" PRIu64 ", or never: %u\n", app->ended_twice, app->outstanding);
    }
}

void load_report_final(const struct load_app *app)
{
    if (app->opt.output == OUTPUT_JSON) {
        print_json(app);
    } else {
        print_table(app);
    }
    fflush(stdout);
}
