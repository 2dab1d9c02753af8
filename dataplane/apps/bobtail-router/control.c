// SPDX-License-Identifier: Apache-2.0
// The router's answers to the control protocol; all of them run in the packet loop.
#include "router_app.h"

#include "router/words.h"
#include "shell/log.h"
#include "shell/start.h"
#include "wire/mcase.h"

#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)

// One address per worker, in the document's order; returns how many.
static size_t expand_members(struct router_app *app, const struct bt_config *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_members; i++) {
        for (int64_t w = 0; w < c->members[i].workers && n < BT_ROUTER_MEMBERS_MAX; w++) {
            app->members[n] = c->members[i].addr;
            app->members[n].port = (uint16_t)(c->members[i].addr.port + w);
            n++;
        }
    }
    return n;
}

// Transparent forwarding keeps the client's address, which is of the family of our own sockets, and
// needs a privilege.
static bool prepare_transparent(struct router_app *app, const struct bt_config *c, struct bt_ctl_error *e)
{
    char why[256], text[BT_ADDR_TEXT];
    struct bt_addr own = app->io->ops->local(app->io, BT_ROUTER_PORT_REQUEST);
    bool v4 = bt_addr_is_v4(&own);
    for (size_t i = 0; i < c->n_members; i++) {
        if (bt_addr_is_v4(&c->members[i].addr) != v4) {
            return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "service.forwarding",
                                 "Transparent needs members of the router's own family, IPv%d; %s is not", v4 ? 4 : 6,
                                 bt_addr_format_ip(&c->members[i].addr, text));
        }
    }
    return bt_network_allow_transparent(app->network, app->io, why, sizeof why) == 0 ||
           bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "service.forwarding", "%s", why);
}

// The router knows workers by number in its own order, the document knows neither: so a worker is named by its address.
static bool refusal(const struct router_app *app, struct bt_ctl_error *e, const struct bt_router_refusal *why)
{
    char text[BT_ADDR_TEXT];
    if (strcmp(why->field, "members") == 0 && why->index < BT_ROUTER_MEMBERS_MAX) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, why->field, "%s %s",
                             bt_addr_format(&app->members[why->index], text), why->reason);
    }
    return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, why->field, "%s", why->reason);
}

static struct bt_admission_config admission_of(const struct bt_config_admission *a)
{
    struct bt_admission_config out = {.mode = BT_ADMISSION_OBSERVE};
    if (!a->given) {
        return out;
    }
    out.mode = a->mode;
    out.controller = a->controller;
    out.slo_ns = (uint64_t)a->latency_us * 1000;
    out.per_100k = (uint32_t)a->per_100k;
    for (size_t i = 0; i < a->n_droppable; i++) {
        out.droppable = (uint8_t)(out.droppable | 1u << a->droppable[i]);
    }
    return out;
}

static struct bt_hedging_config hedging_of(const struct bt_config_hedging *h)
{
    if (!h->given) {
        return (struct bt_hedging_config){.mode = BT_HEDGING_OFF};
    }
    return (struct bt_hedging_config){.mode = h->mode,
                                      .busy_percent = (uint32_t)h->busy_percent,
                                      .budget_percent = (uint32_t)h->budget_percent,
                                      .per_100k = (uint32_t)h->per_100k,
                                      .probe_per_million = (uint32_t)h->probe_per_million,
                                      .cancellation = h->cancellation};
}

static bool router_apply(void *arg, const struct bt_config *c, const struct bt_keyring *keys, struct bt_ctl_error *e)
{
    struct router_app *app = arg;
    const struct bt_config_service *s = &c->service;
    struct bt_router_refusal why = {.field = "", .reason = "refused"};
    if (s->forwarding == BT_FORWARD_TRANSPARENT && !prepare_transparent(app, c, e)) {
        return false;
    }
    struct bt_router_config config = {
        .policy = s->policy,
        .forwarding = s->forwarding,
        .device = s->device,
        .legacy_peers = s->legacy_peers,
        .depth = (uint32_t)s->worker_queue_depth,
        .central_limit = (uint32_t)s->central_queue_limit,
        .max_queue_ns = (uint64_t)s->max_queue_ms * MS,
        .request_timeout_ns = (uint64_t)s->request_timeout_ms * MS,
        .hold_back_packets = (uint32_t)s->hold_back_packets,
        .hold_back_ns = (uint64_t)s->hold_back_us * 1000,
        .admission = admission_of(&s->admission),
        .hedging = hedging_of(&s->hedging),
        .max_payload = app->datagram,
        .members = app->members,
        .members_n = expand_members(app, c),
        .keys = keys,
    };
    if (!bt_router_apply(app->router, bt_io_now(app->io), &config, &why)) {
        return refusal(app, e, &why);
    }
    bt_log_info("configuration in force: service %s/%s, policy %s, n %u, %zu workers", s->namespace, s->name,
                bt_router_policy_words[s->policy], config.depth, config.members_n);
    return true;
}

static void router_state(void *arg, struct bt_ctl_state *out)
{
    struct router_app *app = arg;
    uint64_t now = bt_io_now(app->io);
    struct bt_router_stats stats;
    struct bt_router_member_stats m;
    bt_router_read_stats(app->router, now, &stats);
    out->is_router = true;
    bt_network_look(app->network, &app->device, &out->device);
    out->draining = stats.router_draining;
    out->uptime_ns = now - app->started_ns;
    out->held = stats.held;
    out->held_limit = stats.held_limit;
    out->hedging = (struct bt_ctl_hedging){.mode = bt_hedging_mode_words[stats.hedging_mode],
                                           .copies = stats.counter[BT_RC_HEDGES_SENT],
                                           .won = stats.counter[BT_RC_HEDGES_WON],
                                           .cancelled = stats.counter[BT_RC_CANCELS_HONOURED],
                                           .preempted = stats.counter[BT_RC_PREEMPTIONS],
                                           .delay_ns = stats.hedging_delay_ns,
                                           .busy_ppm = stats.hedging_busy_ppm,
                                           .compared = stats.jitter_compared,
                                           .hiccup_ppm = stats.jitter_hiccups_ppm,
                                           .hiccup_ns = stats.hiccup_ns,
                                           .service_ns = stats.service_ns};
    out->fast_path = fast_path_state(app);
    for (uint32_t i = 0; i < BT_ROUTER_MEMBERS_MAX && bt_router_member(app->router, now, i, &m); i++) {
        out->members[out->n_members++] = (struct bt_ctl_member){
            .addr = m.addr,
            .joined = m.joined,
            .eligible = m.eligible,
            .suspect = m.suspect,
            .ejected = m.ejected,
            .n = m.n,
            .outstanding = m.outstanding,
            .sent = m.sent,
            .done = m.done,
            .lost = m.lost,
            .incarnation = m.incarnation,
            .feedback_age_ms = m.feedback_age_ns == UINT64_MAX ? -1 : (int64_t)(m.feedback_age_ns / MS),
        };
    }
}

// Packets rejected by M-case (r2p2.md §9); case 0 is "accepted".
static void add_malformed(struct bt_ctl_samples *out, const uint64_t counts[BT_M_COUNT])
{
    for (int m = 1; m < BT_M_COUNT; m++) {
        struct bt_counter_desc d = {"router_discarded_total", "reason", bt_mcase_name((enum bt_mcase)m)};
        bt_ctl_add_counters(out, &d, &counts[m], 1);
    }
}

// shares in millionths, since every value of the protocol is an integer.
static void add_class(struct bt_ctl_samples *out, const char *class, const struct bt_admission_class_stats *c)
{
    const struct bt_counter_desc descs[] = {{"router_admission_arrived_total", "class", class},
                                            {"router_admission_refused_total", "class", class},
                                            {"router_admission_within_total", "class", class},
                                            {"router_admission_exceeded_total", "class", class}};
    const uint64_t values[] = {c->arrived, c->refused, c->within, c->exceeded};
    bt_ctl_add_counters(out, descs, values, sizeof values / sizeof *values);
    const struct bt_counter_desc share = {"router_admission_refused_millionths", "class", class};
    bt_ctl_add_labelled_gauge(out, &share, (uint64_t)c->share * 1000000u / BT_ADMISSION_ONE);
}

static void add_admission(struct bt_ctl_samples *out, const struct bt_router_stats *s)
{
    static const char *const classes[BT_ADMISSION_CLASSES] = {"0", "1", "2", "3", "4", "5", "6", "7"};
    const struct bt_counter_desc descs[] = {{"router_admission_unknown_total", NULL, NULL},
                                            {"router_admission_periods_total", "result", "decided"},
                                            {"router_admission_periods_total", "result", "extended"},
                                            {"router_admission_periods_total", "result", "stalled"}};
    const uint64_t values[] = {s->admission_unknown, s->admission_decisions, s->admission_extensions,
                               s->admission_stalls};
    bt_ctl_add_counters(out, descs, values, sizeof values / sizeof *values);
    bt_ctl_add_gauge(out, "router_admission_enforcing", s->admission_mode != BT_ADMISSION_OBSERVE);
    for (unsigned c = 0; c < BT_ADMISSION_CLASSES; c++) {
        if (s->admission_class[c].arrived > 0) {
            add_class(out, classes[c], &s->admission_class[c]);
        }
    }
}

static void add_hedging(struct bt_ctl_samples *out, const struct bt_router_stats *s)
{
    bt_ctl_add_gauge(out, "router_hedging", s->hedging_mode != BT_HEDGING_OFF);
    if (s->hedging_mode == BT_HEDGING_OFF) {
        return;
    }
    bt_ctl_add_gauge(out, "router_hedging_kept", s->hedging_kept);
    bt_ctl_add_gauge(out, "router_hedging_delay_nanoseconds", s->hedging_delay_ns);
    bt_ctl_add_gauge(out, "router_hedging_busy_millionths", s->hedging_busy_ppm);
    bt_ctl_add_gauge(out, "router_jitter_compared", s->jitter_compared);
    bt_ctl_add_gauge(out, "router_jitter_hiccup_millionths", s->jitter_hiccups_ppm);
    bt_ctl_add_gauge(out, "router_jitter_hiccup_nanoseconds", s->hiccup_ns);
    bt_ctl_add_gauge(out, "router_jitter_service_nanoseconds", s->service_ns);
}

// Those of both ios together: they are of one driver, so their counters are the same ones.
static void add_io_counters(struct bt_ctl_samples *out, const struct router_app *app)
{
    const struct bt_counter_desc *descs;
    unsigned n;
    const uint64_t *other = NULL;
    if (app->two.feedback_io != NULL) {
        other = app->two.feedback_io->ops->counters(app->two.feedback_io, &descs, &n);
    }
    const uint64_t *own = app->io->ops->counters(app->io, &descs, &n);
    for (unsigned i = 0; i < n; i++) {
        uint64_t sum = own[i] + (other != NULL ? other[i] : 0);
        bt_ctl_add_counters(out, &descs[i], &sum, 1);
    }
}

static void router_counters(void *arg, struct bt_ctl_samples *out)
{
    struct router_app *app = arg;
    struct bt_router_stats s;
    bt_router_read_stats(app->router, bt_io_now(app->io), &s);
    bt_ctl_add_counters(out, bt_router_counter_descs, s.counter, BT_ROUTER_COUNTERS);
    add_malformed(out, s.malformed);
    add_io_counters(out, app);
    add_admission(out, &s);
    add_hedging(out, &s);
    fast_path_counters(app, out);
    bt_ctl_add_gauge(out, "router_held", s.held);
    bt_ctl_add_gauge(out, "router_held_limit", s.held_limit);
    bt_ctl_add_gauge(out, "router_oldest_held_nanoseconds", s.oldest_held_ns);
    bt_ctl_add_gauge(out, "router_outstanding", s.outstanding);
    bt_ctl_add_gauge(out, "router_pairs", s.pairs);
    bt_ctl_add_gauge(out, "router_members", s.members);
    bt_ctl_add_gauge(out, "router_members_joined", s.joined);
    bt_ctl_add_gauge(out, "router_members_eligible", s.eligible);
    bt_ctl_add_gauge(out, "router_members_suspect", s.suspect);
    bt_ctl_add_gauge(out, "router_members_ejected", s.ejected);
    bt_ctl_add_gauge(out, "router_members_draining", s.draining);
    bt_ctl_add_gauge(out, "router_draining", s.router_draining);
    bt_ctl_add_gauge(out, "router_buffers_in_use", bt_network_in_use(app->network));
}

static void router_leave(void *arg)
{
    struct router_app *app = arg;
    bt_router_drain(app->router, bt_io_now(app->io));
}

static const struct bt_hist_slices *router_slices(void *arg, const char *name)
{
    const struct router_app *app = arg;
    if (strcmp(name, "latency") == 0) {
        return bt_router_latency(app->router);
    }
    return strcmp(name, "hold") == 0 ? bt_router_hold(app->router) : NULL;
}

// "class0" to "class7", and "marked": requests that mode Degrade marked.
static const struct bt_hist *router_totals(void *arg, const char *name)
{
    const struct router_app *app = arg;
    unsigned class = BT_ADMISSION_CLASSES;
    if (strncmp(name, "class", 5) == 0 && name[5] >= '0' && name[5] < '0' + (int)BT_ADMISSION_CLASSES &&
        name[6] == '\0') {
        class = (unsigned)(name[5] - '0');
    } else if (strcmp(name, "marked") != 0) {
        return NULL;
    }
    return bt_router_class_latency(app->router, class);
}

static const struct bt_trace_ring *router_traces(void *arg)
{
    const struct router_app *app = arg;
    return &app->traces;
}

const struct bt_ctl_app router_ctl_app = {
    .role = "router",
    .histogram_source = "Router",
    .apply = router_apply,
    .state = router_state,
    .counters = router_counters,
    .leave = router_leave,
    .slices = router_slices,
    .histogram_names = "latency, hold, class0 to class7, marked",
    .totals = router_totals,
    .traces = router_traces,
    .now = bt_control_now,
};
