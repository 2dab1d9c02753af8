// SPDX-License-Identifier: Apache-2.0
// The fields of "configure": read, checked, and what was left out filled in.
#include "agent/agent.h"
#include "agent/fields.h"

#include "shell/start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIST_TEXT = 512, FIELDS_MAX = 32 };

#define PROTOCOLS "echo|synthetic|stss|http|memcached-ascii|memcached-binary|redis|r2p2"
enum { R2P2 = BT_REPLY_PROTOCOLS }; // the others are in the order of enum bt_reply_protocol
enum { GET_SET, YCSB_E };           // the choices of "mix"

// Fields that are not simply stored.
struct draft {
    int protocol, mix;
    uint64_t keys;
    double read_ratio;
    char key_order[64];
    char request[DIST_TEXT], reply[DIST_TEXT], service[DIST_TEXT], key[DIST_TEXT], value[DIST_TEXT], scan[DIST_TEXT];
};

static const struct draft defaults = {
    .protocol = -1,
    .keys = 10000,
    .read_ratio = -1,
    .request = "fixed:64",
    .reply = "fixed:64",
    .service = "fixed:0",
    .key = "fixed:30",
    .value = "fixed:200",
    .scan = "uni:1:100",
};

static size_t how_fields(struct agent_field f[FIELDS_MAX], struct agent_config *c, struct draft *d)
{
    const struct agent_field rows[] = {
        {.name = "protocol", .kind = FIELD_CHOICE, .to = &d->protocol, .choices = PROTOCOLS},
        {.name = "targets",
         .kind = FIELD_TEXTS,
         .to = c->target,
         .max = AGENT_TARGETS,
         .cap = AGENT_TARGET_TEXT,
         .count = &c->n_targets},
        {.name = "role", .kind = FIELD_CHOICE, .to = &c->role, .choices = "throughput|latency|symmetric"},
        {.name = "timestamps", .kind = FIELD_CHOICE, .to = &c->stamps, .choices = "auto|software|kernel|hardware"},
        {.name = "device", .kind = FIELD_TEXT, .to = c->device, .cap = sizeof c->device},
        {.name = "polling", .kind = FIELD_CHOICE, .to = &c->polling, .choices = "default|busy|wait"},
        {.name = "threads", .kind = FIELD_U32, .to = &c->threads, .min = 1, .max = AGENT_THREADS},
        {.name = "connections", .kind = FIELD_U32, .to = &c->connections, .min = 1, .max = AGENT_CONNECTIONS},
        {.name = "outstanding", .kind = FIELD_U32, .to = &c->outstanding, .min = 1, .max = BT_FLIGHT_MAX},
        {.name = "timeoutNanoseconds", .kind = FIELD_U64, .to = &c->timeout_ns, .min = 1e6, .max = 600e9},
        {.name = "arrivals", .kind = FIELD_CHOICE, .to = &c->arrivals, .choices = "poisson|fixed|trace"},
        {.name = "traceNanoseconds", .kind = FIELD_NUMBERS, .to = c->trace, .max = AGENT_TRACE, .count = &c->n_trace},
        {.name = "seed", .kind = FIELD_U64, .to = &c->seed, .max = 0x1p53},
        {.name = "preload", .kind = FIELD_BOOL, .to = &c->preload},
        {.name = "traceShare", .kind = FIELD_DOUBLE, .to = &c->trace_share, .min = 0, .max = 1},
    };
    memcpy(f, rows, sizeof rows);
    return sizeof rows / sizeof rows[0];
}

static size_t what_fields(struct agent_field f[FIELDS_MAX], struct agent_config *c, struct draft *d)
{
    struct bt_workload *w = &c->workload;
    const struct agent_field rows[] = {
        {.name = "requestBytes", .kind = FIELD_TEXT, .to = d->request, .cap = DIST_TEXT},
        {.name = "replyBytes", .kind = FIELD_TEXT, .to = d->reply, .cap = DIST_TEXT},
        {.name = "serviceTime", .kind = FIELD_TEXT, .to = d->service, .cap = DIST_TEXT},
        {.name = "path", .kind = FIELD_TEXT, .to = w->path, .cap = sizeof w->path},
        {.name = "host", .kind = FIELD_TEXT, .to = w->host, .cap = sizeof w->host},
        {.name = "keys", .kind = FIELD_U64, .to = &d->keys, .min = 1, .max = BT_KEYS_MAX},
        {.name = "keyOrder", .kind = FIELD_TEXT, .to = d->key_order, .cap = sizeof d->key_order},
        {.name = "keyBytes", .kind = FIELD_TEXT, .to = d->key, .cap = DIST_TEXT},
        {.name = "valueBytes", .kind = FIELD_TEXT, .to = d->value, .cap = DIST_TEXT},
        {.name = "mix", .kind = FIELD_CHOICE, .to = &d->mix, .choices = "get-set|ycsb-e"},
        {.name = "readRatio", .kind = FIELD_DOUBLE, .to = &d->read_ratio, .min = 0, .max = 1},
        {.name = "scanLength", .kind = FIELD_TEXT, .to = d->scan, .cap = DIST_TEXT},
    };
    memcpy(f, rows, sizeof rows);
    return sizeof rows / sizeof rows[0];
}

static bool read_dist(const char *field, const char *text, struct bt_dist *out, struct bt_ctl_error *e)
{
    const char *why = bt_dist_parse(text, out);
    return why == NULL || bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, field, "%s; got \"%.80s\"", why, text);
}

// Bytes that end up in a request line or a header must not end it.
static bool printable(const char *field, const char *text, struct bt_ctl_error *e)
{
    for (const char *at = text; *at != '\0'; at++) {
        if (*at <= ' ' || *at == 0x7f) {
            return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, field,
                                 "must have no blanks, control or non-ASCII characters; escape them");
        }
    }
    return true;
}

static bool check_http(struct agent_config *c, struct bt_ctl_error *e)
{
    struct bt_workload *w = &c->workload;
    if (w->host[0] == '\0') {
        memcpy(w->host, c->target[0], strnlen(c->target[0], sizeof w->host - 1));
    }
    if (w->path[0] != '/') {
        return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "path", "must start with /; got \"%.80s\"", w->path);
    }
    return printable("path", w->path, e) && printable("host", w->host, e);
}

static bool check_workload(struct agent_config *c, const struct draft *d, struct bt_ctl_error *e)
{
    struct bt_workload *w = &c->workload;
    const char *why = bt_keys_init(&w->keys, d->keys, d->key_order);
    w->protocol = d->protocol == R2P2 ? BT_REPLY_ECHO : (uint8_t)d->protocol;
    c->r2p2 = d->protocol == R2P2;
    w->scans = d->mix == YCSB_E;
    w->read_ratio = d->read_ratio >= 0 ? d->read_ratio : w->scans ? 0.95 : 1;
    if (why != NULL) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "keyOrder", "%s; got \"%s\"", why, d->key_order);
    }
    if (w->scans && w->protocol != BT_REPLY_REDIS) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "mix", "ycsb-e needs the protocol redis, which can scan");
    }
    if (c->trace_share > 0 && !c->r2p2) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "traceShare",
                             "needs the protocol r2p2, which carries trace ids");
    }
    if (c->preload && !bt_workload_has_keys(w)) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "preload", "needs a protocol with keys: redis or memcached");
    }
    return read_dist("requestBytes", d->request, &w->request_bytes, e) &&
           read_dist("replyBytes", d->reply, &w->reply_bytes, e) &&
           read_dist("serviceTime", d->service, &w->service_ns, e) &&
           read_dist("keyBytes", d->key, &w->keys.bytes, e) && read_dist("valueBytes", d->value, &w->value_bytes, e) &&
           read_dist("scanLength", d->scan, &w->scan_length, e) && (w->protocol != BT_REPLY_HTTP || check_http(c, e));
}

static bool check_trace(struct agent_config *c, struct bt_ctl_error *e)
{
    double sum = 0;
    for (uint32_t i = 0; i < c->n_trace; i++) {
        sum += (double)c->trace[i];
    }
    c->trace_mean = c->n_trace != 0 ? sum / c->n_trace : 0;
    if ((c->arrivals == AGENT_TRACE_ARRIVALS) != (c->n_trace != 0)) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "traceNanoseconds",
                             "belongs to arrivals \"trace\" and to no other");
    }
    return c->n_trace == 0 || sum > 0 ||
           bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "traceNanoseconds", "must have a gap above 0");
}

static bool check(struct agent_config *c, const struct draft *d, struct bt_ctl_error *e)
{
    if (d->protocol < 0) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "protocol", "is required: one of " PROTOCOLS);
    }
    if (c->n_targets == 0) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "targets", "is required: a list of HOST:PORT");
    }
    if (c->connections < c->threads) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "connections", "must be at least threads, %u; got %u",
                             c->threads, c->connections);
    }
    if ((uint64_t)c->connections * c->outstanding > AGENT_IN_FLIGHT) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "outstanding",
                             "times connections must be at most %u requests on their way; got %u times %u",
                             AGENT_IN_FLIGHT, c->outstanding, c->connections);
    }
    if (c->polling == AGENT_POLLING_DEFAULT) {
        c->polling = c->role == AGENT_LATENCY ? AGENT_BUSY : AGENT_WAIT;
    }
    if (c->seed == 0) {
        c->seed = bt_new_seed() >> 11;
    }
    return check_workload(c, d, e) && check_trace(c, e);
}

bool agent_config_read(const char *line, size_t len, struct agent_config *out, struct bt_ctl_error *e)
{
    struct agent_field fields[FIELDS_MAX];
    struct draft d = defaults;
    *out = (struct agent_config){.role = AGENT_SYMMETRIC,
                                 .threads = 1,
                                 .connections = 16,
                                 .outstanding = 1,
                                 .timeout_ns = UINT64_C(1000000000),
                                 .trace = malloc(AGENT_TRACE * sizeof(uint64_t)),
                                 .workload = {.path = "/"}};
    if (out->trace == NULL) {
        return bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "out of memory");
    }
    size_t n = how_fields(fields, out, &d);
    n += what_fields(fields + n, out, &d);
    bool read = agent_read_fields(line, len, fields, n, e);
    if (read && !agent_field_seen(fields, n, "keyOrder")) {
        snprintf(d.key_order, sizeof d.key_order, "%s", bt_workload_key_order(d.mix == YCSB_E));
    }
    if (!read || !check(out, &d, e)) {
        agent_config_free(out);
        return false;
    }
    return true;
}

void agent_config_free(struct agent_config *c)
{
    free(c->trace);
    c->trace = NULL;
}
