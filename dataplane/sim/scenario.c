// SPDX-License-Identifier: Apache-2.0
// The scenario file's vocabulary: every field, its bounds and its default.
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "router/router_config.h"
#include "yaml_reader.h"

const char *const sim_packet_names[] = {"REQ0", "REPLY", "FEEDBACK", "REQRDY", "DROP", "SACK", "REQN", "ANY", NULL};
const char *const sim_fault_names[] = {"loss", "duplicate", "reorder", "delay", "corrupt", NULL};
const char *const sim_event_names[] = {"crashServer", "crashRouter", "leaveServer", "setDepth",
                                       "partition",   "reconfigure", NULL};
/* The order is that of enum bt_router_policy, bt_router_forwarding, bt_device. */
const char *const sim_policy_names[] = {"JBSQ", "JSQ", "PowerOfTwo", "RoundRobin", "Random", NULL};
const char *const sim_forwarding_names[] = {"Encapsulated", "Transparent", NULL};
const char *const sim_device_names[] = {"Kernel", "AFXDP", "SRIOV", NULL};
static const char *const dist_names[] = {"deterministic", "exponential", "bimodal1", "bimodal2",
                                         "lognormal",     "bimodal10",   NULL};
static const char *const arrival_names[] = {"poisson", "fixed", NULL};

#define AT(m)    offsetof(struct sim_scenario, m)
#define US       1e3
#define MS       1e6
#define ARRAY(a) (sizeof(a) / sizeof((a)[0]))

static const struct sim_field top_fields[] = {
    {"name", SIM_F_TEXT, AT(name), 0, SIM_NAME, 0, NULL},
    {"seed", SIM_F_U64, AT(seed), 1, 9e15, 0, NULL},
    {"requests", SIM_F_U64, AT(requests), 1, 1e9, 0, NULL},
    {"warmup", SIM_F_DOUBLE, AT(warmup), 0, 0.9, 0, NULL},
    {"deviceProfile", SIM_F_NAME, AT(device), 0, 0, 0, sim_device_names},
    {"tagged", SIM_F_BOOL, AT(tagged), 0, 0, 0, NULL},
    {"settleMilliseconds", SIM_F_U32, AT(settle_ms), 0, 60000, 0, NULL},
    {"probes", SIM_F_U32, AT(probes), 0, 10000, 0, NULL},
    {"garbagePerSecond", SIM_F_DOUBLE, AT(garbage_per_second), 0, 1e5, 0, NULL},
};
static const struct sim_field worker_fields[] = {
    {"count", SIM_F_U32, AT(workers), 1, SIM_WORKERS_MAX, 0, NULL},
    {"queueDepth", SIM_F_U32, AT(depth), 1, 64, 0, NULL},
    {"legacy", SIM_F_U32, AT(legacy_workers), 0, SIM_WORKERS_MAX, 0, NULL},
    {"distribution", SIM_F_NAME, AT(service.kind), 0, 0, 0, dist_names},
    {"meanMicroseconds", SIM_F_DOUBLE, AT(service.mean_ns), 0.1, 1e7, 0, NULL},
    {"sigma", SIM_F_DOUBLE, AT(service.sigma), 0, 3, 0, NULL},
    {"maxMessageBytes", SIM_F_U32, AT(server_max_message), 64, 1 << 20, 0, NULL},
};
static const struct sim_field router_fields[] = {
    {"count", SIM_F_U32, AT(routers), 1, SIM_ROUTERS_MAX, 0, NULL},
    {"policy", SIM_F_NAME, AT(policy), 0, 0, 0, sim_policy_names},
    {"forwarding", SIM_F_NAME, AT(forwarding), 0, 0, 0, sim_forwarding_names},
    {"centralQueueLimit", SIM_F_U32, AT(central_limit), 1, 1048576, 0, NULL},
    {"maxQueueMilliseconds", SIM_F_NS, AT(max_queue_ns), 1, 600000, MS, NULL},
    {"requestTimeoutMilliseconds", SIM_F_NS, AT(request_timeout_ns), 1, 600000, MS, NULL},
    {"holdBackPackets", SIM_F_U32, AT(hold_back_packets), 0, 64, 0, NULL},
    {"holdBackMicroseconds", SIM_F_NS, AT(hold_back_ns), 0, 1000, US, NULL},
};
static const struct sim_field client_fields[] = {
    {"count", SIM_F_U32, AT(clients), 1, SIM_CLIENTS_MAX, 0, NULL},
    {"load", SIM_F_DOUBLE, AT(load), 0.001, 10, 0, NULL},
    {"burst", SIM_F_DOUBLE, AT(burst), 0, 0.95, 0, NULL},
    {"arrivals", SIM_F_NAME, AT(fixed_arrivals), 0, 0, 0, arrival_names},
    {"timeoutMilliseconds", SIM_F_NS, AT(timeout_ns), 0.001, 600000, MS, NULL},
    {"withoutExtensions", SIM_F_DOUBLE, AT(plain_share), 0, 1, 0, NULL},
    {"requestBytes", SIM_F_U32, AT(request_bytes), 16, 1400, 0, NULL},
    {"replyBytes", SIM_F_U32, AT(reply_bytes), 16, 1400, 0, NULL},
    {"longBytes", SIM_F_U32, AT(long_bytes), 1465, 60000, 0, NULL},
    {"longRequests", SIM_F_DOUBLE, AT(long_requests), 0, 1, 0, NULL},
    {"longReplies", SIM_F_DOUBLE, AT(long_replies), 0, 1, 0, NULL},
    {"sticky", SIM_F_DOUBLE, AT(sticky), 0, 1, 0, NULL},
    {"direct", SIM_F_DOUBLE, AT(direct), 0, 1, 0, NULL},
};
static const struct sim_field network_fields[] = {
    {"clientToRouterMicroseconds", SIM_F_NS, AT(delay.client_router_ns), 0, 1e6, US, NULL},
    {"routerToServerMicroseconds", SIM_F_NS, AT(delay.router_server_ns), 0, 1e6, US, NULL},
    {"serverToRouterMicroseconds", SIM_F_NS, AT(delay.server_router_ns), 0, 1e6, US, NULL},
    {"serverToClientMicroseconds", SIM_F_NS, AT(delay.server_client_ns), 0, 1e6, US, NULL},
    {"clientToServerMicroseconds", SIM_F_NS, AT(delay.client_server_ns), 0, 1e6, US, NULL},
    {"jitterMicroseconds", SIM_F_NS, AT(delay.jitter_ns), 0, 1e6, US, NULL},
};

#undef AT
#define AT(m) offsetof(struct sim_fault, m)
static const struct sim_field fault_fields[] = {
    {"name", SIM_F_TEXT, AT(name), 0, SIM_NAME, 0, NULL},
    {"packets", SIM_F_NAME, AT(packet), 0, 0, 0, sim_packet_names},
    {"kind", SIM_F_NAME, AT(kind), 0, 0, 0, sim_fault_names},
    {"probability", SIM_F_DOUBLE, AT(probability), 0, 1, 0, NULL},
    {"microseconds", SIM_F_NS, AT(extra_ns), 0, 1e7, US, NULL},
    {"fromMilliseconds", SIM_F_NS, AT(from_ns), 0, 1e7, MS, NULL},
    {"untilMilliseconds", SIM_F_NS, AT(until_ns), 0, 1e7, MS, NULL},
};
#undef AT
#define AT(m) offsetof(struct sim_happening, m)
static const struct sim_field event_fields[] = {
    {"kind", SIM_F_NAME, AT(kind), 0, 0, 0, sim_event_names},
    {"atMilliseconds", SIM_F_NS, AT(at_ns), 0, 1e7, MS, NULL},
    {"forMilliseconds", SIM_F_NS, AT(for_ns), 0, 1e7, MS, NULL},
    {"target", SIM_F_U32, AT(target), 0, 1023, 0, NULL},
    {"value", SIM_F_U32, AT(value), 0, 64, 0, NULL},
};
#undef AT
#define AT(m) offsetof(struct sim_expect, m)
static const struct sim_field expect_fields[] = {
    {"measure", SIM_F_TEXT, AT(measure), 0, SIM_NAME, 0, NULL},
    {"atLeast", SIM_F_DOUBLE, AT(low), -1e18, 1e18, 0, NULL},
    {"atMost", SIM_F_DOUBLE, AT(high), -1e18, 1e18, 0, NULL},
};
#undef AT

void sim_scenario_defaults(struct sim_scenario *s)
{
    memset(s, 0, sizeof *s);
    memcpy(s->name, "unnamed", sizeof "unnamed");
    s->seed = 1;
    s->requests = 10000;
    s->warmup = 0.1;
    s->settle_ms = 1000;
    s->tagged = true;
    s->workers = 16;
    s->depth = 2;
    s->service = (struct sim_dist){SIM_DIST_EXPONENTIAL, 1e6, 1};
    s->server_max_message = 1 << 16;
    s->routers = 1;
    s->central_limit = 65536;
    s->max_queue_ns = (uint64_t)600e9;
    s->request_timeout_ns = (uint64_t)600e9;
    s->clients = 4;
    s->load = 0.5;
    s->timeout_ns = (uint64_t)600e9;
    s->request_bytes = s->reply_bytes = 16;
    s->long_bytes = 4096;
}

struct sim_template {
    char *path;
    yaml_document_t *doc;
};

static void read_faults(struct sim_yaml *y, yaml_node_t *list, struct sim_scenario *s)
{
    yaml_node_t *item;
    for (size_t i = 0; (item = sim_yaml_item(y, list, i, "faults")) != NULL; i++) {
        char where[48];
        snprintf(where, sizeof where, "faults[%zu]", i);
        if (i == SIM_FAULTS_MAX) {
            sim_yaml_complain(y, item, where, "at most %d faults", SIM_FAULTS_MAX);
            return;
        }
        struct sim_fault *f = &s->fault[i];
        f->until_ns = UINT64_MAX;
        sim_yaml_fields(y, item, where, fault_fields, ARRAY(fault_fields), NULL, f);
        if (f->name[0] == '\0') {
            snprintf(f->name, sizeof f->name, "%s-%s", sim_packet_names[f->packet], sim_fault_names[f->kind]);
        }
        if (sim_yaml_get(y, item, "probability") == NULL) {
            sim_yaml_complain(y, item, where, "probability is missing");
        }
        s->faults_n++;
    }
}

static void read_events(struct sim_yaml *y, yaml_node_t *list, struct sim_scenario *s)
{
    yaml_node_t *item;
    for (size_t i = 0; (item = sim_yaml_item(y, list, i, "events")) != NULL; i++) {
        char where[48];
        snprintf(where, sizeof where, "events[%zu]", i);
        if (i == SIM_EVENTS_MAX) {
            sim_yaml_complain(y, item, where, "at most %d events", SIM_EVENTS_MAX);
            return;
        }
        sim_yaml_fields(y, item, where, event_fields, ARRAY(event_fields), NULL, &s->event[i]);
        s->event[i].number = (uint32_t)i;
        s->events_n++;
    }
}

static void read_expect(struct sim_yaml *y, yaml_node_t *list, struct sim_scenario *s)
{
    yaml_node_t *item;
    for (size_t i = 0; (item = sim_yaml_item(y, list, i, "expect")) != NULL; i++) {
        char where[48];
        snprintf(where, sizeof where, "expect[%zu]", i);
        if (i == SIM_EXPECT_MAX) {
            sim_yaml_complain(y, item, where, "at most %d expectations", SIM_EXPECT_MAX);
            return;
        }
        struct sim_expect *e = &s->expect[i];
        *e = (struct sim_expect){.low = -1e300, .high = 1e300, .line = (int)item->start_mark.line + 1};
        sim_yaml_fields(y, item, where, expect_fields, ARRAY(expect_fields), NULL, e);
        s->expect_n++;
    }
}

static void cross_check(struct sim_yaml *y, yaml_node_t *root, const struct sim_scenario *s)
{
    if (s->legacy_workers > 0 && s->forwarding != BT_FORWARD_TRANSPARENT) {
        sim_yaml_complain(y, root, "workers.legacy",
                          "legacy peers skip no options; set routers.forwarding: Transparent");
    }
    if (s->legacy_workers > s->workers) {
        sim_yaml_complain(y, root, "workers.legacy", "must be at most workers.count (%u)", s->workers);
    }
    if (s->hold_back_packets > 0 && s->policy != BT_ROUTER_JBSQ) {
        sim_yaml_complain(y, root, "routers.holdBackPackets", "only policy JBSQ holds back");
    }
    if ((s->hold_back_packets > 0) != (s->hold_back_ns > 0)) {
        sim_yaml_complain(y, root, "routers.holdBackPackets",
                          "packets and microseconds must both be 0 or both positive");
    }
}

static void read_sections(struct sim_yaml *y, yaml_node_t *root, struct sim_scenario *s)
{
    static const char *const sections[] = {"workers", "routers", "clients", "network", "faults",
                                           "events",  "expect",  "about",   NULL};
    double mean_us = s->service.mean_ns / US;
    s->service.mean_ns = mean_us;
    sim_yaml_fields(y, root, "", top_fields, ARRAY(top_fields), sections, s);
    sim_yaml_fields(y, sim_yaml_get(y, root, "workers"), "workers", worker_fields, ARRAY(worker_fields), NULL, s);
    sim_yaml_fields(y, sim_yaml_get(y, root, "routers"), "routers", router_fields, ARRAY(router_fields), NULL, s);
    sim_yaml_fields(y, sim_yaml_get(y, root, "clients"), "clients", client_fields, ARRAY(client_fields), NULL, s);
    sim_yaml_fields(y, sim_yaml_get(y, root, "network"), "network", network_fields, ARRAY(network_fields), NULL, s);
    read_faults(y, sim_yaml_get(y, root, "faults"), s);
    read_events(y, sim_yaml_get(y, root, "events"), s);
    read_expect(y, sim_yaml_get(y, root, "expect"), s);
    s->service.mean_ns *= US;
}

int sim_template_draw(const struct sim_template *t, uint64_t seed, struct sim_scenario *out, char *err, size_t err_n)
{
    struct bt_rng draw;
    sim_scenario_defaults(out);
    struct sim_yaml y = {
        .file = t->path, .doc = t->doc, .drawn = out->drawn, .drawn_n = sizeof out->drawn, .err = err, .err_n = err_n};
    yaml_node_t *root = yaml_document_get_root_node(t->doc);
    if (seed == 0) { /* the file's own seed must be known before anything is drawn */
        const struct sim_field own = {"seed", SIM_F_U64, offsetof(struct sim_scenario, seed), 1, 9e15, 0, NULL};
        yaml_node_t *n = sim_yaml_get(&y, root, "seed");
        const char *s = n != NULL && n->type == YAML_SCALAR_NODE ? (const char *)n->data.scalar.value : "1";
        seed = strtoull(s, NULL, 10);
        if (seed == 0)
            sim_yaml_complain(&y, n, own.key, "must be 1..9e15; got %s", s);
    }
    sim_stream_seed(&draw, seed, SIM_STREAM_DRAW);
    y.draw = &draw;
    read_sections(&y, root, out);
    cross_check(&y, root, out);
    out->seed = seed;
    return y.failed ? -1 : 0;
}

struct sim_template *sim_template_load(const char *path, char *err, size_t err_n)
{
    yaml_document_t *doc = sim_yaml_open(path, err, err_n);
    if (doc == NULL)
        return NULL;
    struct sim_template *t = calloc(1, sizeof *t);
    struct sim_scenario *probe = calloc(1, sizeof *probe);
    if (t == NULL || probe == NULL)
        abort();
    t->path = strdup(path);
    t->doc = doc;
    bool ok = sim_template_draw(t, 0, probe, err, err_n) == 0;
    free(probe);
    if (!ok) {
        sim_template_free(t);
        return NULL;
    }
    return t;
}

void sim_template_free(struct sim_template *t)
{
    if (t == NULL)
        return;
    yaml_document_delete(t->doc);
    free(t->doc);
    free(t->path);
    free(t);
}
