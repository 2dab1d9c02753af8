// SPDX-License-Identifier: Apache-2.0
// Sockets, the router each of them uses, and what becomes of every request.
#include "load_app.h"

#include "io/mtu.h"
#include "shell/log.h"
#include "shell/pool.h"
#include "shell/start.h"
#include "wire/options.h"

#include <stdlib.h>
#include <string.h>

#define NO_RECORD UINT32_MAX
enum { PORT_RANGE = 4096 };

// Tallies outlive the list: a router that left keeps its row in the report.
static uint16_t tally_of(struct load_app *app, const struct bt_addr *router)
{
    const unsigned max = sizeof app->routers / sizeof app->routers[0];
    for (unsigned i = 0; i < app->n_routers; i++) {
        if (bt_addr_eq(&app->routers[i].addr, router)) {
            return (uint16_t)i;
        }
    }
    if (app->n_routers < max) {
        app->routers[app->n_routers].addr = *router;
        return (uint16_t)app->n_routers++;
    }
    return (uint16_t)(max - 1);
}

static void use_router(struct load_connection *c, const struct bt_addr *router)
{
    c->router = *router;
    c->tally = tally_of(c->app, router);
    c->timeouts_in_row = 0;
}

static int index_in_list(const struct load_list *list, const struct bt_addr *a)
{
    for (unsigned i = 0; i < list->n; i++) {
        if (bt_addr_eq(&list->addr[i], a)) {
            return (int)i;
        }
    }
    return -1;
}

// To the next router of the list; with one router there is nowhere to go.
static void move_on(struct load_connection *c)
{
    const struct load_list *list = &c->app->list;
    int at = index_in_list(list, &c->router);
    c->timeouts_in_row = 0;
    if (at < 0 || list->n > 1) {
        unsigned next = at >= 0 ? ((unsigned)at + 1) % list->n : (unsigned)(c - c->app->conn) % list->n;
        use_router(c, &list->addr[next]);
        c->app->moves++;
    }
}

void load_connections_update(struct load_app *app)
{
    for (unsigned i = 0; i < app->opt.connections; i++) {
        if (index_in_list(&app->list, &app->conn[i].router) < 0) {
            move_on(&app->conn[i]);
        }
    }
}

void load_connections_unreachable(struct load_app *app, const struct bt_io_event *ev)
{
    if (ev->local < app->opt.connections && bt_addr_eq(&ev->peer, &app->conn[ev->local].router)) {
        move_on(&app->conn[ev->local]);
    }
}

// Every request ends exactly once. NULL for a second ending, which is counted and nothing else.
static struct load_record *end_record(struct load_app *app, uint64_t cookie)
{
    if (cookie >= app->n_records || !app->records[cookie].in_flight) {
        app->ended_twice++;
        return NULL;
    }
    struct load_record *r = &app->records[cookie];
    r->in_flight = false;
    r->next_free = app->free_record;
    app->free_record = (uint32_t)cookie;
    app->outstanding--;
    return r;
}

static void count_unanswered(struct load_app *app, const struct load_record *r)
{
    if (r->measured) {
        bt_hist_record_inf(&app->hist, 1);
    }
    bt_hist_record_inf(&app->second_hist, 1);
    if (app->slices != NULL) {
        bt_hist_slices_record_inf(app->slices, bt_io_now(app->io), 1);
    }
}

// A reply must be its request (echo), to the last byte.
static bool intact(struct load_app *app, const struct load_record *r, const struct bt_msg *reply)
{
    uint32_t n = app->opt.request_bytes;
    return reply->len == n && bt_msg_copy(reply, app->reply, n) == n &&
           load_body_is(app->reply, n, r->serial, app->body);
}

static void on_success(void *arg, uint64_t cookie, struct bt_msg *reply, const struct bt_reply_info *info)
{
    struct load_connection *c = arg;
    struct load_app *app = c->app;
    struct load_record *r = end_record(app, cookie);
    bool good = r != NULL && (!app->opt.verify || intact(app, r, reply));
    bt_client_done(c->client, reply);
    if (r == NULL) {
        return;
    }
    uint64_t ns = info->t_rx_ns > r->due_ns ? info->t_rx_ns - r->due_ns : 0;
    load_outcomes_add(app, r, good ? "answered" : "corrupt");
    c->timeouts_in_row = 0;
    app->second.completed++;
    app->routers[r->router].completed++;
    bt_hist_record(&app->second_hist, ns);
    if (app->slices != NULL) {
        bt_hist_slices_record(app->slices, info->t_rx_ns, ns);
    }
    app->corrupt += !good;
    if (r->measured && good) {
        app->tally.completed++;
        app->tally.degraded += (info->class_flags & BT_CLASS_DEGRADED) != 0;
        bt_hist_record(&app->hist, ns);
    } else if (r->measured) {
        app->tally.errors++;
        bt_hist_record_inf(&app->hist, 1);
    }
}

static void on_timeout(void *arg, uint64_t cookie)
{
    struct load_connection *c = arg;
    struct load_app *app = c->app;
    struct load_record *r = end_record(app, cookie);
    if (r == NULL) {
        return;
    }
    load_outcomes_add(app, r, "timeout");
    app->second.timeouts++;
    app->routers[r->router].timeouts++;
    app->tally.timeouts += r->measured;
    count_unanswered(app, r);
    // Requests of before the last move say nothing about the router in use now.
    if (r->router == c->tally && ++c->timeouts_in_row >= LOAD_TIMEOUTS_TO_MOVE) {
        move_on(c);
    }
}

static void on_error(void *arg, uint64_t cookie, int code)
{
    struct load_connection *c = arg;
    struct load_app *app = c->app;
    struct load_record *r = end_record(app, cookie);
    if (r == NULL) {
        return;
    }
    load_outcomes_add(app, r, code == BT_RPC_DROPPED ? "dropped" : "error");
    if (code == BT_RPC_DROPPED) {
        c->timeouts_in_row = 0; // refused, but by something alive
        app->second.dropped++;
        app->routers[r->router].dropped++;
        app->tally.dropped += r->measured;
        if (app->slices != NULL) {
            bt_hist_slices_rejected(app->slices, bt_io_now(app->io), 1);
        }
        return;
    }
    app->second.errors++;
    app->tally.errors += r->measured;
    app->error_codes[-code & 15]++;
    count_unanswered(app, r);
}

static void count_refused(struct load_app *app, bool measured, int code)
{
    app->error_codes[-code & 15]++;
    app->second.errors++;
    app->tally.errors += measured;
    if (measured) {
        bt_hist_record_inf(&app->hist, 1);
    }
    bt_hist_record_inf(&app->second_hist, 1);
}

void load_send_one(struct load_app *app, uint64_t due_ns, uint64_t now_ns)
{
    struct load_connection *c = &app->conn[app->next_conn];
    bool measured = due_ns >= app->measure_ns;
    uint64_t cookie = app->free_record;
    app->next_conn = (app->next_conn + 1) % app->opt.connections;
    app->second.offered++;
    app->tally.offered += measured;
    if (app->slices != NULL) {
        bt_hist_slices_arrived(app->slices, now_ns, 1);
    }
    if (app->free_record == NO_RECORD) {
        count_refused(app, measured, BT_RPC_TABLE_FULL);
        return;
    }
    uint64_t serial = app->next_serial++;
    load_body_fill(app->body, app->opt.request_bytes, serial, app->opt.verify);
    struct iovec iov = {.iov_base = app->body, .iov_len = app->opt.request_bytes};
    struct bt_request rq = {.iov = &iov,
                            .iovcnt = 1,
                            .dst = c->router,
                            .timeout_ns = app->opt.timeout_ns,
                            .cookie = cookie,
                            .policy = (uint8_t)app->opt.policy,
                            .with_class = app->opt.priority != 0,
                            .class_id = (uint8_t)app->opt.priority};
    uint64_t retry_ns;
    int id = app->opt.flow_control ? bt_client_try_send(c->client, now_ns, &rq, &app->txq, &retry_ns)
                                   : bt_client_send(c->client, now_ns, &rq, &app->txq);
    if (id == BT_RPC_AGAIN) { // what cannot be in time is given up (F-41)
        app->tally.held += measured;
        return;
    }
    if (id < 0) {
        count_refused(app, measured, id);
        return;
    }
    struct load_record *r = &app->records[cookie];
    app->free_record = r->next_free;
    app->outstanding++;
    *r = (struct load_record){.serial = serial,
                              .due_ns = due_ns,
                              .sent_ns = now_ns,
                              .next_free = NO_RECORD,
                              .connection = (uint16_t)(c - app->conn),
                              .router = c->tally,
                              .measured = measured,
                              .in_flight = true};
    app->second.sent++;
    app->tally.sent += measured;
    app->routers[c->tally].sent++;
}

// Client ports come from a range of our own, outside the kernel's, starting at random so
// that a new run does not take up the request ids of the last one.
static bool open_ports(struct load_app *app)
{
    static struct bt_addr local[LOAD_CONNECTIONS_MAX];
    char why[256] = "";
    unsigned blocks = PORT_RANGE / app->opt.connections;
    unsigned first = (unsigned)(bt_new_seed() % blocks);
    for (unsigned b = 0; b < blocks && app->io == NULL; b++) {
        unsigned base = app->opt.port_base + (first + b) % blocks * app->opt.connections;
        for (unsigned i = 0; i < app->opt.connections; i++) {
            (void)load_own_address(&app->opt, (uint16_t)(base + i), &local[i]); // checked when the options were read
        }
        app->io = bt_network_io(app->network, 0, &(struct bt_network_ports){local, app->opt.connections, true}, why,
                                sizeof why);
    }
    if (app->io == NULL) {
        bt_log_error("%s", why);
    }
    return app->io != NULL;
}

// All routers are asked for: the sockets move between them. Those that come later are taken to be on
// the same network.
static bool choose_mtu(struct load_app *app)
{
    struct bt_addr local = app->io->ops->local(app->io, 0);
    if (!bt_network_mtu(app->network, app->opt.mtu, &app->mtu)) {
        return false;
    }
    bool by_route = app->mtu == 0;
    app->mtu = by_route ? BT_MTU_MAX : app->mtu;
    for (unsigned i = 0; by_route && i < app->list.n; i++) {
        uint16_t one = bt_mtu_toward(&local, &app->list.addr[i]);
        app->mtu = one < app->mtu ? one : app->mtu;
    }
    bt_log_info("MTU %u%s", app->mtu, app->opt.mtu == 0 ? " (auto)" : "");
    return true;
}

uint64_t load_connections_too_long(const struct load_app *app)
{
    const struct bt_counter_desc *descs;
    unsigned n;
    uint64_t sum = 0;
    const uint64_t *v = app->io->ops->counters(app->io, &descs, &n);
    for (unsigned i = 0; i < n; i++) {
        if (descs[i].value != NULL && strcmp(descs[i].value, "too_long") == 0 &&
            strstr(descs[i].name, "tx_dropped") != NULL) {
            sum += v[i];
        }
    }
    return sum;
}

static bool make_clients(struct load_app *app)
{
    struct bt_client_cfg cfg = {.mtu = app->mtu,
                                .max_pending = app->opt.pending,
                                .max_assemblies = 256,
                                .max_message = app->opt.max_message,
                                .extensions = !app->opt.legacy,
                                .timers = bt_rpc_timers_for(BT_DEVICE_KERNEL),
                                .flow_targets = app->opt.flow_control ? 4 : 0,
                                .pool = app->pool,
                                .ops = {.success = on_success, .timeout = on_timeout, .error = on_error}};
    size_t bytes = (bt_client_bytes(&cfg) + 63) & ~(size_t)63;
    app->client_mem = bytes != 0 ? bt_map(bytes * app->opt.connections) : NULL;
    app->n_records = app->opt.pending * app->opt.connections;
    app->records = bt_map(app->n_records * sizeof *app->records);
    app->body = calloc(1, app->opt.max_message);
    app->reply = calloc(1, app->opt.max_message);
    if (app->client_mem == NULL || app->records == NULL || app->body == NULL || app->reply == NULL) {
        bt_log_error("out of memory for %u requests in flight; lower --pending or --connections", app->n_records);
        return false;
    }
    for (unsigned i = 0; i < app->opt.connections; i++) {
        struct load_connection *c = &app->conn[i];
        cfg.local = app->io->ops->local(app->io, i);
        cfg.local_index = (uint16_t)i;
        cfg.seed = bt_new_seed();
        cfg.ops.arg = c;
        c->app = app;
        c->client = bt_client_init(&cfg, (char *)app->client_mem + bytes * i, bytes, bt_io_now(app->io));
        if (c->client == NULL) {
            bt_log_error("socket %u cannot be set up", i);
            return false;
        }
        use_router(c, &app->list.addr[(app->opt.seed + i) % app->list.n]);
    }
    return true;
}

bool load_connections_open(struct load_app *app)
{
    if (!open_ports(app) || !choose_mtu(app) || !make_clients(app)) {
        return false;
    }
    for (uint32_t i = 0; i < app->n_records; i++) {
        app->records[i].next_free = i + 1 < app->n_records ? i + 1 : NO_RECORD;
    }
    // Unlike those of other runs, so that a late reply to one of theirs cannot pass for one of ours.
    app->next_serial = bt_new_seed() << 32;
    return true;
}
