// SPDX-License-Identifier: Apache-2.0
// The fields of "configure": read, checked, and what was left out filled in.
#include "agent/agent.h"
#include "agent/fields.h"

#include "shell/start.h"

#include <stdlib.h>
#include <string.h>

enum { GET_SET, YCSB_E }; // the words of "mix"

// The configuration to be, and what is not simply stored in it.
struct draft {
    struct agent_config c;
    unsigned protocol, mix; // protocol: of enum bt_reply_protocol, and AGENT_R2P2
    uint64_t keys;
    double read_ratio; // below 0: not given
    char key_order[64];
    bool key_order_given;
    struct bt_dist key_bytes;
};

static const char *const role_words[] = {"throughput", "latency", "symmetric", NULL};
static const char *const stamps_words[] = {"auto", "software", "kernel", "hardware", NULL};
static const char *const polling_words[] = {"default", "busy", "wait", NULL};
static const char *const arrivals_words[] = {"poisson", "fixed", "trace", NULL};
static const char *const mix_words[] = {"get-set", "ycsb-e", NULL};

static const char *parse_dist(const char *text, void *to)
{
    return bt_dist_parse(text, to);
}

#define AT(m)                        BT_SHAPE_AT(struct draft, m)
#define WORD(label, place, list)     {.name = label, .kind = BT_SHAPE_WORD, .to = place, .words = list}
#define WHOLE(label, place, low, up) {.name = label, .kind = BT_SHAPE_WHOLE, .to = place, .min = low, .max = up}
#define SHARE(label, place)          {.name = label, .kind = BT_SHAPE_NUMBER, .to = place, .max = 1}
#define DIST(label, place)           {.name = label, .kind = BT_SHAPE_PARSED, .to = place, .parse = parse_dist}
#define TEXT(label, place)           {.name = label, .kind = BT_SHAPE_TEXT, .to = place}

static const struct bt_shape_field target = {.kind = BT_SHAPE_TEXT, .to = {0, AGENT_TARGET_TEXT}};
static const struct bt_shape_field gap = {.kind = BT_SHAPE_WHOLE, .to = {0, sizeof(uint64_t)}, .max = 0x1p53};

static const struct bt_shape_field configure_fields[] = {
    AGENT_OP_FIELD,
    {"protocol", BT_SHAPE_WORD, true, AT(protocol), .words = bt_lancet_protocol_words},
    {"targets", BT_SHAPE_ARRAY, true, AT(c.target), AT(c.n_targets), .min = 1, .max = AGENT_TARGETS, .item = &target},
    WORD("role", AT(c.role), role_words),
    WORD("timestamps", AT(c.stamps), stamps_words),
    TEXT("device", AT(c.device)),
    WORD("polling", AT(c.polling), polling_words),
    WHOLE("threads", AT(c.threads), 1, AGENT_THREADS),
    WHOLE("connections", AT(c.connections), 1, AGENT_CONNECTIONS),
    WHOLE("outstanding", AT(c.outstanding), 1, BT_FLIGHT_MAX),
    WHOLE("timeoutNanoseconds", AT(c.timeout_ns), 1e6, 600e9),
    WORD("arrivals", AT(c.arrivals), arrivals_words),
    {"traceNanoseconds", BT_SHAPE_LIST, false, AT(c.trace), AT(c.n_trace), .max = AGENT_TRACE, .item = &gap},
    WHOLE("seed", AT(c.seed), 0, 0x1p53),
    {"preload", BT_SHAPE_TRUTH, false, AT(c.preload)},
    SHARE("traceShare", AT(c.trace_share)),
    DIST("requestBytes", AT(c.workload.request_bytes)),
    DIST("replyBytes", AT(c.workload.reply_bytes)),
    DIST("serviceTime", AT(c.workload.service_ns)),
    TEXT("path", AT(c.workload.path)),
    TEXT("host", AT(c.workload.host)),
    WHOLE("keys", AT(keys), 1, BT_KEYS_MAX),
    {"keyOrder", BT_SHAPE_TEXT, false, AT(key_order), .given = AT(key_order_given)},
    DIST("keyBytes", AT(key_bytes)),
    DIST("valueBytes", AT(c.workload.value_bytes)),
    WORD("mix", AT(mix), mix_words),
    SHARE("readRatio", AT(read_ratio)),
    DIST("scanLength", AT(c.workload.scan_length)),
};
static const struct bt_shape configure_shape = AGENT_SHAPE(configure_fields);

static void set_defaults(struct draft *d)
{
    struct bt_workload *w = &d->c.workload;
    *d = (struct draft){.keys = 10000,
                        .read_ratio = -1,
                        .c = {.role = AGENT_SYMMETRIC,
                              .threads = 1,
                              .connections = 16,
                              .outstanding = 1,
                              .timeout_ns = UINT64_C(1000000000),
                              .workload = {.path = "/"}}};
    bt_dist_parse("fixed:64", &w->request_bytes);
    bt_dist_parse("fixed:64", &w->reply_bytes);
    bt_dist_parse("fixed:0", &w->service_ns);
    bt_dist_parse("fixed:30", &d->key_bytes);
    bt_dist_parse("fixed:200", &w->value_bytes);
    bt_dist_parse("uni:1:100", &w->scan_length);
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
    const char *order = d->key_order_given ? d->key_order : bt_workload_key_order(d->mix == YCSB_E);
    const char *why = bt_keys_init(&w->keys, d->keys, order);
    w->keys.bytes = d->key_bytes;
    c->r2p2 = d->protocol == BT_REPLY_PROTOCOLS; // the word behind theirs
    w->protocol = c->r2p2 ? BT_REPLY_ECHO : (uint8_t)d->protocol;
    w->scans = d->mix == YCSB_E;
    w->read_ratio = d->read_ratio >= 0 ? d->read_ratio : w->scans ? 0.95 : 1;
    if (why != NULL) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "keyOrder", "%s; got \"%s\"", why, order);
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
    return w->protocol != BT_REPLY_HTTP || check_http(c, e);
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
    struct draft d;
    set_defaults(&d);
    bool ok = agent_read_fields(line, len, &configure_shape, &d, e) && check(&d.c, &d, e);
    if (!ok) {
        agent_config_free(&d.c);
    }
    *out = d.c;
    return ok;
}

void agent_config_free(struct agent_config *c)
{
    free(c->trace);
    c->trace = NULL;
}
