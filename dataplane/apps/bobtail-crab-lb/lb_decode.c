// SPDX-License-Identifier: Apache-2.0
// Every field of the document: where it goes, and what it may be.
#include "lb_decode.h"

#include "base/addr.h"
#include "ctl/shape.h"

#include <stdio.h>
#include <string.h>

#define CFG(m)                       BT_SHAPE_AT(struct lb_config, m)
#define VIP(m)                       BT_SHAPE_AT(struct lb_vip, m)
#define SRV(m)                       BT_SHAPE_AT(struct lb_server, m)
#define WHOLE(label, place, low, up) {label, BT_SHAPE_WHOLE, false, place, .min = low, .max = up}
#define WORD(label, place, list)     {label, BT_SHAPE_WORD, false, place, .words = list}
#define SHAPE(rows, type)            {rows, sizeof rows / sizeof *rows, sizeof(struct type), false}

// By the names of the nodes' policies (bobtail.dev/policy) as well. This program has one thread, whose round robin is
// its own.
static const char *const policy_words[] = {"RoundRobin",       "Weighted",         "Random", "Hash", "PowerOfTwo",
                                           "LeastConnections", "RoundRobinPerCPU", "Least",  NULL};
static const enum bt_crab_policy policies[] = {
    BT_CRAB_ROUND_ROBIN,  BT_CRAB_WEIGHTED, BT_CRAB_RANDOM,      BT_CRAB_HASH,
    BT_CRAB_POWER_OF_TWO, BT_CRAB_LEAST,    BT_CRAB_ROUND_ROBIN, BT_CRAB_LEAST,
};
static const char *const fallback_words[] = {"DirectReturn", "Drop", NULL};
static const char *const client_words[] = {"Placeholder", "AssumeCapable", NULL};

// Loopback addresses, and those of IPv6 that mean nothing without the link they are of.
static bool is_of_nobody(const struct bt_addr *a)
{
    static const uint8_t loopback[16] = {[15] = 1};
    if (bt_addr_is_v4(a)) {
        return a->ip[12] == 127;
    }
    return memcmp(a->ip, loopback, sizeof loopback) == 0 || (a->ip[0] == 0xfe && (a->ip[1] & 0xc0) == 0x80);
}

static const char *parse_ip(const char *text, void *to)
{
    char with_port[60];
    struct bt_addr a;
    bool v4 = strchr(text, ':') == NULL, fits = strlen(text) < 48;
    snprintf(with_port, sizeof with_port, v4 ? "%.47s:1" : "[%.47s]:1", text);
    if (!fits || bt_addr_parse(with_port, 0, &a) != 0 || bt_addr_is_v4(&a) != v4 || bt_addr_bad_source(&a) ||
        is_of_nobody(&a)) {
        return "must be the IPv4 or IPv6 address of a host, and with IPv6 not link-local";
    }
    a.port = 0;
    *(struct bt_addr *)to = a;
    return NULL;
}

// A weight left out is 1; a port stands in the address.
static void finish_server(struct bt_shape_reader *r, void *item)
{
    struct lb_server *s = item;
    (void)r;
    s->weight = s->weight != 0 ? s->weight : 1;
}

static void finish_vip(struct bt_shape_reader *r, void *item)
{
    struct lb_vip *v = item;
    (void)r;
    bt_addr_set_port(&v->crab.addr, v->port);
    v->crab.policy = policies[v->policy];
}

static void check_option(struct bt_shape_reader *r, void *base)
{
    const struct lb_config *c = base;
    if ((c->encoding.kind >= 253) != c->experiment_given) {
        bt_shape_refuse(r, "", "needs experiment with kind 253 or 254, and with no other (RFC 6994)");
    }
}

static void check_probe(struct bt_shape_reader *r, void *base)
{
    const struct lb_config *c = base;
    if (c->probe_timeout_ms > c->probe_interval_ms) {
        bt_shape_refuse(r, "", "needs a timeoutMilliseconds of at most intervalMilliseconds");
    }
}

static const struct bt_shape_field server_fields[] = {
    {"address", BT_SHAPE_PARSED, true, SRV(ip), .parse = parse_ip},
    WHOLE("weight", SRV(weight), 1, BT_CRAB_MAX_WEIGHT),
};
static const struct bt_shape server_shape = SHAPE(server_fields, lb_server);
static const struct bt_shape_field server = {"", BT_SHAPE_OBJECT, .shape = &server_shape, .check = finish_server};

static const struct bt_shape_field vip_fields[] = {
    {"address", BT_SHAPE_PARSED, true, VIP(crab.addr), .parse = parse_ip},
    {"port", BT_SHAPE_WHOLE, true, VIP(port), .min = 1, .max = 65535},
    WORD("policy", VIP(policy), policy_words),
    WORD("fallback", VIP(crab.fallback), fallback_words),
    WORD("clients", VIP(crab.assume_capable), client_words),
    {"servers", BT_SHAPE_LIST, true, VIP(servers), VIP(n_servers), .max = BT_CRAB_MAX_BACKENDS, .item = &server},
};
static const struct bt_shape vip_shape = SHAPE(vip_fields, lb_vip);
static const struct bt_shape_field vip = {"", BT_SHAPE_OBJECT, .shape = &vip_shape, .check = finish_vip};

static const struct bt_shape_field option_fields[] = {
    WHOLE("kind", CFG(encoding.kind), 9, 254),
    {"experiment", BT_SHAPE_WHOLE, false, CFG(encoding.experiment), .given = CFG(experiment_given), .max = 65535},
};
static const struct bt_shape option_shape = SHAPE(option_fields, lb_config);

static const struct bt_shape_field probe_fields[] = {
    WHOLE("intervalMilliseconds", CFG(probe_interval_ms), 10, 3600000),
    WHOLE("timeoutMilliseconds", CFG(probe_timeout_ms), 5, 3600000),
    WHOLE("failures", CFG(probe.failures), 1, 100),
    WHOLE("successes", CFG(probe.successes), 1, 100),
};
static const struct bt_shape probe_shape = SHAPE(probe_fields, lb_config);

static const struct bt_shape_field document_fields[] = {
    {"option", BT_SHAPE_OBJECT, false, .shape = &option_shape, .check = check_option},
    {"probe", BT_SHAPE_OBJECT, false, .shape = &probe_shape, .check = check_probe},
    {"vips", BT_SHAPE_LIST, true, CFG(vips), CFG(n_vips), .max = BT_CRAB_MAX_VIPS, .item = &vip},
};
static const struct bt_shape document_shape = SHAPE(document_fields, lb_config);

bool lb_decode(const char *text, size_t len, struct lb_config *c, struct bt_ctl_error *e)
{
    bool ok = bt_shape_read(&document_shape, c, text, len, BT_CTL_INVALID_CONFIG, e);
    c->probe.interval_ns = c->probe_interval_ms * UINT64_C(1000000);
    c->probe.timeout_ns = c->probe_timeout_ms * UINT64_C(1000000);
    return ok;
}
