// SPDX-License-Identifier: Apache-2.0
// From JSON to struct lb_config, a table of fields per object: unknown, repeated and wrong ones are refused by name.
#include "lb_decode.h"

#include "base/addr.h"
#include "ctl/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct decoder {
    struct bt_json json;
    struct bt_ctl_error *error;
    struct lb_config *config;
    char path[96]; // of the value being read
};

// One field of an object: `read` is given `to`.
struct field {
    const char *name;
    bool (*read)(struct decoder *d, const struct field *f);
    void *to;
    int64_t min, max;
    const char *choices; // "A|B"
    bool required, seen;
};

static bool refuse(struct decoder *d, const char *must)
{
    return bt_ctl_refuse(d->error, BT_CTL_INVALID_CONFIG, d->path, "%s", must);
}

static bool syntax(struct decoder *d)
{
    return bt_ctl_refuse(d->error, BT_CTL_INVALID_CONFIG, NULL, "is not valid JSON: %s at byte %zu",
                         d->json.failed != NULL ? d->json.failed : "unexpected text", d->json.at);
}

static bool expect(struct decoder *d, enum bt_json_kind want)
{
    enum bt_json_kind got = bt_json_peek(&d->json);
    char must[80];
    if (got == want) {
        return true;
    }
    if (got == BT_JSON_BAD) {
        bt_json_skip(&d->json, NULL, NULL);
        return syntax(d);
    }
    snprintf(must, sizeof must, "must be %s; got %s", bt_json_kind_name(want), bt_json_kind_name(got));
    return refuse(d, must);
}

static bool read_text(struct decoder *d, char *buf, size_t cap)
{
    size_t len;
    if (!expect(d, BT_JSON_STRING)) {
        return false;
    }
    if (!bt_json_string(&d->json, buf, cap, &len)) {
        return syntax(d);
    }
    return len < cap && strlen(buf) == len ? true : refuse(d, "is too long or holds a zero byte");
}

// --- kinds of values

static bool read_u64(struct decoder *d, const struct field *f)
{
    const char *text;
    size_t len;
    int64_t v;
    char must[80];
    if (!expect(d, BT_JSON_NUMBER)) {
        return false;
    }
    if (!bt_json_number(&d->json, &text, &len)) {
        return syntax(d);
    }
    if (!bt_json_to_int(text, len, &v) || v < f->min || v > f->max) {
        snprintf(must, sizeof must, "must be %lld..%lld; got %.*s", (long long)f->min, (long long)f->max,
                 (int)(len < 24 ? len : 24), text);
        return refuse(d, must);
    }
    *(uint64_t *)f->to = (uint64_t)v;
    return true;
}

static bool read_choice(struct decoder *d, const struct field *f)
{
    char text[32], must[160];
    if (!read_text(d, text, sizeof text)) {
        return false;
    }
    size_t len = strlen(text);
    int index = 0;
    for (const char *c = f->choices; c != NULL; index++) {
        const char *end = strchrnul(c, '|');
        if ((size_t)(end - c) == len && memcmp(c, text, len) == 0) {
            *(int *)f->to = index;
            return true;
        }
        c = *end == '|' ? end + 1 : NULL;
    }
    snprintf(must, sizeof must, "must be %s; got \"%s\"", f->choices, text);
    return refuse(d, must);
}

// Loopback addresses, and those of IPv6 that mean nothing without the link they are of.
static bool is_of_nobody(const struct bt_addr *a)
{
    static const uint8_t loopback[16] = {[15] = 1};
    if (bt_addr_is_v4(a)) {
        return a->ip[12] == 127;
    }
    return memcmp(a->ip, loopback, sizeof loopback) == 0 || (a->ip[0] == 0xfe && (a->ip[1] & 0xc0) == 0x80);
}

static bool read_ip(struct decoder *d, const struct field *f)
{
    char text[48], with_port[60];
    struct bt_addr a;
    if (!read_text(d, text, sizeof text)) {
        return false;
    }
    bool v4 = strchr(text, ':') == NULL;
    snprintf(with_port, sizeof with_port, v4 ? "%s:1" : "[%s]:1", text);
    if (bt_addr_parse(with_port, 0, &a) != 0 || bt_addr_is_v4(&a) != v4 || bt_addr_bad_source(&a) || is_of_nobody(&a)) {
        return refuse(d, "must be the IPv4 or IPv6 address of a host, and with IPv6 not link-local");
    }
    a.port = 0;
    *(struct bt_addr *)f->to = a;
    return true;
}

// --- objects and lists

static struct field *find(struct field *fields, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(fields[i].name, name) == 0) {
            return &fields[i];
        }
    }
    return NULL;
}

static bool read_member(struct decoder *d, struct field *fields, size_t n, const char *name)
{
    size_t base = strlen(d->path);
    struct field *f = find(fields, n, name);
    snprintf(d->path + base, sizeof d->path - base, "%s%.31s", base > 0 ? "." : "", name);
    if (f == NULL) {
        return refuse(d, "is no field of this object");
    }
    if (f->seen) {
        return refuse(d, "is given twice");
    }
    f->seen = true;
    if (!f->read(d, f)) {
        return false;
    }
    d->path[base] = '\0';
    return true;
}

static bool read_object(struct decoder *d, struct field *fields, size_t n)
{
    char name[32];
    int more;
    if (!expect(d, BT_JSON_OBJECT) || !bt_json_enter(&d->json)) {
        return d->json.failed != NULL ? syntax(d) : false;
    }
    while ((more = bt_json_key(&d->json, name, sizeof name)) == 1) {
        if (!read_member(d, fields, n, name)) {
            return false;
        }
    }
    if (more < 0) {
        return syntax(d);
    }
    for (size_t i = 0; i < n; i++) {
        if (fields[i].required && !fields[i].seen) {
            size_t base = strlen(d->path);
            snprintf(d->path + base, sizeof d->path - base, "%s%s", base > 0 ? "." : "", fields[i].name);
            return refuse(d, "is missing");
        }
    }
    return true;
}

// Reads a list into *items, which grows; one(d, item) reads an item.
static bool read_list(struct decoder *d, void **items, uint32_t *n, size_t size, uint32_t most,
                      bool (*one)(struct decoder *, void *))
{
    size_t base = strlen(d->path);
    uint32_t room = 0;
    int more;
    if (!expect(d, BT_JSON_LIST) || !bt_json_enter(&d->json)) {
        return d->json.failed != NULL ? syntax(d) : false;
    }
    while ((more = bt_json_item(&d->json)) == 1) {
        if (*n == most) {
            char must[60];
            snprintf(must, sizeof must, "has more than %u items", most);
            return refuse(d, must);
        }
        if (*n == room) {
            room = room == 0 ? 8 : 2 * room;
            void *larger = realloc(*items, room * size);
            if (larger == NULL) {
                return refuse(d, "does not fit into memory");
            }
            *items = larger;
        }
        void *item = (char *)*items + *n * size;
        memset(item, 0, size);
        snprintf(d->path + base, sizeof d->path - base, "[%u]", (*n)++);
        if (!one(d, item)) {
            return false;
        }
        d->path[base] = '\0';
    }
    return more == 0 ? true : syntax(d);
}

// --- the document

static bool read_server(struct decoder *d, void *item)
{
    struct lb_server *s = item;
    uint64_t weight = 1;
    struct field fields[] = {{.name = "address", .read = read_ip, .to = &s->ip, .required = true},
                             {.name = "weight", .read = read_u64, .to = &weight, .min = 1, .max = BT_CRAB_MAX_WEIGHT}};
    if (!read_object(d, fields, 2)) {
        return false;
    }
    s->weight = (uint16_t)weight;
    return true;
}

static bool read_servers(struct decoder *d, const struct field *f)
{
    struct lb_vip *v = f->to;
    return read_list(d, (void **)&v->servers, &v->n_servers, sizeof *v->servers, BT_CRAB_MAX_BACKENDS, read_server);
}

// By the names of the nodes' policies (bobtail.dev/policy) as well. This program has one thread, whose round robin is
// its own.
#define POLICIES "RoundRobin|Weighted|Random|Hash|PowerOfTwo|LeastConnections|RoundRobinPerCPU|Least"
static const enum bt_crab_policy policies[] = {
    BT_CRAB_ROUND_ROBIN,  BT_CRAB_WEIGHTED, BT_CRAB_RANDOM,      BT_CRAB_HASH,
    BT_CRAB_POWER_OF_TWO, BT_CRAB_LEAST,    BT_CRAB_ROUND_ROBIN, BT_CRAB_LEAST,
};

static bool read_vip(struct decoder *d, void *item)
{
    struct lb_vip *v = item;
    uint64_t port = 0;
    int policy = 0, fallback = BT_CRAB_FALLBACK_DIRECT_RETURN, clients = 0;
    struct field fields[] = {
        {.name = "address", .read = read_ip, .to = &v->crab.addr, .required = true},
        {.name = "port", .read = read_u64, .to = &port, .min = 1, .max = 65535, .required = true},
        {.name = "policy", .read = read_choice, .to = &policy, .choices = POLICIES},
        {.name = "fallback", .read = read_choice, .to = &fallback, .choices = "DirectReturn|Drop"},
        {.name = "clients", .read = read_choice, .to = &clients, .choices = "Placeholder|AssumeCapable"},
        {.name = "servers", .read = read_servers, .to = v, .required = true}};
    if (!read_object(d, fields, sizeof fields / sizeof *fields)) {
        return false;
    }
    bt_addr_set_port(&v->crab.addr, (uint16_t)port);
    v->crab.policy = policies[policy];
    v->crab.fallback = (enum bt_crab_fallback)fallback;
    v->crab.assume_capable = clients == 1;
    return true;
}

static bool read_vips(struct decoder *d, const struct field *f)
{
    struct lb_config *c = f->to;
    return read_list(d, (void **)&c->vips, &c->n_vips, sizeof *c->vips, BT_CRAB_MAX_VIPS, read_vip);
}

static bool read_option(struct decoder *d, const struct field *f)
{
    struct lb_config *c = f->to;
    uint64_t kind = BT_CRAB_KIND, experiment = 0;
    struct field fields[] = {{.name = "kind", .read = read_u64, .to = &kind, .min = 9, .max = 254},
                             {.name = "experiment", .read = read_u64, .to = &experiment, .min = 0, .max = 65535}};
    if (!read_object(d, fields, 2)) {
        return false;
    }
    if ((kind >= 253) != fields[1].seen) {
        return refuse(d, "needs experiment with kind 253 or 254, and with no other (RFC 6994)");
    }
    c->encoding = (struct bt_crab_encoding){(uint8_t)kind, (uint16_t)experiment};
    return true;
}

static bool read_probe(struct decoder *d, const struct field *f)
{
    struct lb_config *c = f->to;
    uint64_t interval = 1000, timeout = 500, failures = 3, successes = 2;
    struct field fields[] = {
        {.name = "intervalMilliseconds", .read = read_u64, .to = &interval, .min = 10, .max = 3600000},
        {.name = "timeoutMilliseconds", .read = read_u64, .to = &timeout, .min = 5, .max = 3600000},
        {.name = "failures", .read = read_u64, .to = &failures, .min = 1, .max = 100},
        {.name = "successes", .read = read_u64, .to = &successes, .min = 1, .max = 100}};
    if (!read_object(d, fields, 4)) {
        return false;
    }
    if (timeout > interval) {
        return refuse(d, "needs a timeoutMilliseconds of at most intervalMilliseconds");
    }
    c->probe.interval_ns = interval * 1000000u;
    c->probe.timeout_ns = timeout * 1000000u;
    c->probe.failures = (uint32_t)failures;
    c->probe.successes = (uint32_t)successes;
    return true;
}

bool lb_decode(const char *text, size_t len, struct lb_config *c, struct bt_ctl_error *e)
{
    struct decoder d = {.error = e, .config = c};
    struct field fields[] = {{.name = "option", .read = read_option, .to = c},
                             {.name = "probe", .read = read_probe, .to = c},
                             {.name = "vips", .read = read_vips, .to = c, .required = true}};
    bt_json_init(&d.json, text, len);
    if (!read_object(&d, fields, 3)) {
        return false;
    }
    return bt_json_end(&d.json) ? true : syntax(&d);
}
