// SPDX-License-Identifier: Apache-2.0
// The bounds of a decoded document, in document order, and its enumerations and addresses turned
// into numbers. Every refusal names the first field at fault and what it may be.
#include "ctl/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INVALID BT_CTL_INVALID_CONFIG

static bool within(struct bt_ctl_error *e, const char *field, int64_t v, int64_t low, int64_t high)
{
    return (v >= low && v <= high) ||
           bt_ctl_refuse(e, INVALID, field, "must be %" PRId64 "..%" PRId64 "; got %" PRId64, low, high, v);
}

static bool nonempty(struct bt_ctl_error *e, const char *field, const struct bt_config_text *t)
{
    if (t->len == 0) {
        return bt_ctl_refuse(e, INVALID, field, "must not be empty");
    }
    return t->len <= BT_CONFIG_TEXT_MAX ||
           bt_ctl_refuse(e, INVALID, field, "must have at most %u bytes; got %zu", BT_CONFIG_TEXT_MAX, t->len);
}

// names: allowed values, ", " between them; *out is the index of the one given.
static bool one_of(struct bt_ctl_error *e, const char *field, const struct bt_config_text *t, const char *names,
                   int *out)
{
    int index = 0;
    for (const char *at = names;; index++) {
        size_t n = strcspn(at, ",");
        if (n == t->len && memcmp(at, t->text, n) == 0) {
            *out = index;
            return true;
        }
        if (at[n] == '\0') {
            return bt_ctl_refuse(e, INVALID, field, "must be one of %s; got \"%.64s\"", names, t->text);
        }
        at += n + 2;
    }
}

static bool check_sources(const struct bt_config *c, struct bt_ctl_error *e)
{
    if (c->n_sources > BT_CONFIG_SOURCES_MAX) {
        return bt_ctl_refuse(e, INVALID, "sources", "must have at most %u entries; got %zu", BT_CONFIG_SOURCES_MAX,
                             c->n_sources);
    }
    for (size_t i = 0; i < c->n_sources; i++) {
        const struct bt_config_source *s = &c->sources[i];
        const struct {
            const char *name;
            const struct bt_config_text *text;
        } texts[] = {{"kind", &s->kind}, {"namespace", &s->namespace}, {"name", &s->name}};
        for (size_t k = 0; k < 3; k++) {
            char at[64];
            snprintf(at, sizeof at, "sources[%zu].%s", i, texts[k].name);
            if (!nonempty(e, at, texts[k].text)) {
                return false;
            }
        }
        if (s->uid.len > BT_CONFIG_TEXT_MAX) {
            char at[64];
            snprintf(at, sizeof at, "sources[%zu].uid", i);
            return nonempty(e, at, &s->uid);
        }
    }
    return true;
}

static bool check_classes(const struct bt_config_admission *a, struct bt_ctl_error *e)
{
    for (size_t i = 0; i < a->n_droppable; i++) {
        char at[64];
        snprintf(at, sizeof at, "service.admission.droppableClasses[%zu]", i);
        if (!within(e, at, a->droppable[i], 0, 7)) {
            return false;
        }
        for (size_t k = 0; k < i; k++) {
            if (a->droppable[k] == a->droppable[i]) {
                return bt_ctl_refuse(e, INVALID, at, "class %" PRId64 " occurs twice; keep one", a->droppable[i]);
            }
        }
    }
    return true;
}

static bool check_admission(struct bt_config_admission *a, struct bt_ctl_error *e)
{
    int mode = 0, controller = 0;
    if (a->given == 0) {
        return true;
    }
    bool ok = one_of(e, "service.admission.mode", &a->mode, "Reject, Degrade", &mode) &&
              one_of(e, "service.admission.controller", &a->controller, "Track, AIAD", &controller) &&
              within(e, "service.admission.latencyMicroseconds", a->latency_us, 1, 100000000) &&
              within(e, "service.admission.percentilePer100000", a->per_100k, 50000, 99990) && check_classes(a, e);
    a->how = (enum bt_config_admission_mode)mode;
    a->by = (enum bt_config_controller)controller;
    return ok;
}

static bool check_hedging(struct bt_config_service *s, struct bt_ctl_error *e)
{
    struct bt_config_hedging *h = &s->hedging;
    int mode = 0, taken_back = 0;
    if (h->given == 0) {
        return true;
    }
    bool ok = one_of(e, "service.hedging.mode", &h->mode, "LoadAware, Delayed, Probe", &mode) &&
              within(e, "service.hedging.busyPercent", h->busy_percent, 1, 100) &&
              within(e, "service.hedging.budgetPercent", h->budget_percent, 1, 100) &&
              within(e, "service.hedging.percentilePer100000", h->per_100k, 50000, 99990) &&
              within(e, "service.hedging.probePerMillion", h->probe_per_million, 0, 1000000) &&
              (h->cancellation.len == 0 ||
               one_of(e, "service.hedging.cancellation", &h->cancellation, "Answered, Preemptive", &taken_back));
    h->taken_back = (enum bt_config_cancellation)taken_back;
    h->how = (enum bt_config_hedging_mode)mode;
    return ok &&
           (strcmp(s->policy.text, "JBSQ") == 0 ||
            bt_ctl_refuse(e, INVALID, "service.hedging.mode", "needs policy JBSQ; got \"%.64s\"", s->policy.text));
}

static bool check_service(struct bt_config_service *s, struct bt_ctl_error *e)
{
    int place = 0, policy = 0, forward = 0, device = 0, legacy = 0; // set by one_of; gcc -O3 cannot tell
    bool ok = nonempty(e, "service.name", &s->name) && nonempty(e, "service.namespace", &s->namespace) &&
              one_of(e, "service.placement", &s->placement, "Software, None", &place) &&
              one_of(e, "service.policy", &s->policy, "JBSQ, JSQ, PowerOfTwo, RoundRobin, Random", &policy) &&
              within(e, "service.workerQueueDepth", s->worker_queue_depth, 1, 64) &&
              within(e, "service.centralQueueLimit", s->central_queue_limit, 1, 1048576) &&
              within(e, "service.maxQueueMilliseconds", s->max_queue_ms, 1, 600000) &&
              one_of(e, "service.forwarding", &s->forwarding, "Encapsulated, Transparent", &forward) &&
              one_of(e, "service.deviceProfile", &s->device_profile, "Kernel, AFXDP, SRIOV", &device) &&
              one_of(e, "service.legacyPeers", &s->legacy_peers, "Deny, Allow", &legacy) &&
              within(e, "service.requestTimeoutMilliseconds", s->request_timeout_ms, 1, 600000) &&
              within(e, "service.workersPerReplica", s->workers_per_replica, 1, 64) &&
              within(e, "service.holdBack.packets", s->hold_back_packets, 0, 1024) &&
              within(e, "service.holdBack.microseconds", s->hold_back_us, 0, 1000000) &&
              check_admission(&s->admission, e) && check_hedging(s, e);
    if (ok) {
        s->place = (enum bt_config_placement)place;
        s->balance = (enum bt_config_policy)policy;
        s->forward = (enum bt_config_forwarding)forward;
        s->device = (enum bt_device)device;
        s->legacy_allowed = legacy == 1;
    }
    return ok;
}

// A bare IP address, without port or brackets.
static bool address(struct bt_ctl_error *e, const char *field, const struct bt_config_text *t, struct bt_addr *out)
{
    char full[BT_CONFIG_TEXT_MAX + 8];
    bool v6 = strchr(t->text, ':') != NULL;
    snprintf(full, sizeof full, v6 ? "[%s]:1" : "%s:1", t->text);
    bool bare = t->len <= BT_CONFIG_TEXT_MAX && strpbrk(t->text, "[]%") == NULL;
    if (!bare || bt_addr_parse(full, 0, out) != 0) {
        return bt_ctl_refuse(e, INVALID, field, "must be an IP address; got \"%.64s\"", t->text);
    }
    // What nobody could send from, such as 240.0.0.0/4, nobody can be reached at.
    return !bt_addr_bad_source(out) ||
           bt_ctl_refuse(e, INVALID, field, "must be a unicast address; got \"%.64s\"", t->text);
}

static int same_endpoint(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct bt_addr));
}

// What takes a port, sorted by address and port so that clashes become neighbours.
struct claim {
    struct bt_addr addr;
    size_t owner;
};

// Reports the lowest owner whose port somebody before it already has.
static bool no_clash(struct bt_ctl_error *e, struct claim *claims, size_t n, const char *list, const char *what)
{
    const struct claim *worst = NULL;
    size_t first = 0;
    qsort(claims, n, sizeof *claims, same_endpoint);
    for (size_t i = 1; i < n; i++) {
        if (!bt_addr_eq(&claims[i].addr, &claims[i - 1].addr)) {
            continue;
        }
        const struct claim *a = &claims[i - 1];
        const struct claim *b = &claims[i];
        const struct claim *late = a->owner > b->owner ? a : b;
        if (worst == NULL || late->owner < worst->owner) {
            worst = late;
            first = late == a ? b->owner : a->owner;
        }
    }
    if (worst == NULL) {
        return true;
    }
    char field[48];
    char text[BT_ADDR_TEXT];
    snprintf(field, sizeof field, "%s[%zu]", list, worst->owner);
    return bt_ctl_refuse(e, INVALID, field, "port %s %s %s[%zu]", bt_addr_format(&worst->addr, text), what, list,
                         first);
}

static bool check_member(struct bt_config_member *m, size_t i, struct bt_ctl_error *e)
{
    char at[4][48];
    static const char *const names[] = {"address", "firstPort", "workers", "name"};
    for (unsigned k = 0; k < 4; k++) {
        snprintf(at[k], sizeof at[k], "members[%zu].%s", i, names[k]);
    }
    if (!address(e, at[0], &m->address, &m->addr) || !within(e, at[1], m->first_port, 1, 65535) ||
        !within(e, at[2], m->workers, 1, 64)) {
        return false;
    }
    if (m->first_port + m->workers - 1 > 65535) {
        return bt_ctl_refuse(e, INVALID, at[2], "ports %" PRId64 "..%" PRId64 " pass 65535; lower firstPort or workers",
                             m->first_port, m->first_port + m->workers - 1);
    }
    m->addr.port = (uint16_t)m->first_port;
    return nonempty(e, at[3], &m->name);
}

static bool check_members(struct bt_config *c, struct bt_ctl_error *e)
{
    bool ok = true;
    struct claim *claims = calloc(BT_CONFIG_WORKERS_MAX, sizeof *claims);
    if (claims == NULL) {
        return bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "out of memory");
    }
    for (size_t i = 0; ok && i < c->n_members; i++) {
        struct bt_config_member *m = &c->members[i];
        ok = check_member(m, i, e);
        if (ok && c->n_workers + (size_t)m->workers > BT_CONFIG_WORKERS_MAX) {
            ok = bt_ctl_refuse(e, INVALID, "members", "must have at most %u workers in all; got %zu",
                               BT_CONFIG_WORKERS_MAX, c->n_workers + (size_t)m->workers);
        }
        for (int64_t w = 0; ok && w < m->workers; w++) {
            struct claim *claim = &claims[c->n_workers++];
            claim->addr = m->addr;
            claim->addr.port = (uint16_t)(m->first_port + w);
            claim->owner = i;
        }
    }
    ok = ok && no_clash(e, claims, c->n_workers, "members", "is already a worker of");
    free(claims);
    return ok;
}

static bool check_router(struct bt_config_router *r, size_t i, struct bt_ctl_error *e)
{
    char at[4][48];
    static const char *const names[] = {"address", "requestPort", "feedbackPort", "name"};
    for (unsigned k = 0; k < 4; k++) {
        snprintf(at[k], sizeof at[k], "routers[%zu].%s", i, names[k]);
    }
    if (!address(e, at[0], &r->address, &r->request) || !within(e, at[1], r->request_port, 1, 65535) ||
        !within(e, at[2], r->feedback_port, 1, 65535) || !nonempty(e, at[3], &r->name)) {
        return false;
    }
    if (r->request_port == r->feedback_port) {
        return bt_ctl_refuse(e, INVALID, at[2], "must differ from requestPort; both are %" PRId64, r->request_port);
    }
    r->feedback = r->request;
    r->request.port = (uint16_t)r->request_port;
    r->feedback.port = (uint16_t)r->feedback_port;
    return true;
}

static bool check_routers(struct bt_config *c, struct bt_ctl_error *e)
{
    struct claim claims[2 * BT_CONFIG_ROUTERS_MAX];
    if (c->n_routers > BT_CONFIG_ROUTERS_MAX) {
        return bt_ctl_refuse(e, INVALID, "routers", "must have at most %u entries; got %zu", BT_CONFIG_ROUTERS_MAX,
                             c->n_routers);
    }
    for (size_t i = 0; i < c->n_routers; i++) {
        if (!check_router(&c->routers[i], i, e)) {
            return false;
        }
        claims[2 * i] = (struct claim){c->routers[i].request, i};
        claims[2 * i + 1] = (struct claim){c->routers[i].feedback, i};
    }
    return no_clash(e, claims, 2 * c->n_routers, "routers", "already belongs to");
}

static bool check_key_ids(const struct bt_config *c, struct bt_ctl_error *e)
{
    if (c->n_key_ids > BT_CONFIG_KEYS_MAX) {
        return bt_ctl_refuse(e, INVALID, "keyIds", "must have at most %u entries; got %zu", BT_CONFIG_KEYS_MAX,
                             c->n_key_ids);
    }
    for (size_t i = 0; i < c->n_key_ids; i++) {
        char at[32];
        snprintf(at, sizeof at, "keyIds[%zu]", i);
        if (!within(e, at, c->key_ids[i], 1, 255)) {
            return false;
        }
        if (i > 0 && c->key_ids[i] == c->key_ids[0]) {
            return bt_ctl_refuse(e, INVALID, at, "key %" PRId64 " occurs twice; keep one", c->key_ids[i]);
        }
    }
    return true;
}

bool bt_config_check(struct bt_config *c, struct bt_ctl_error *e)
{
    if (c->api_version.len != strlen(BT_CONFIG_API_VERSION) ||
        strcmp(c->api_version.text, BT_CONFIG_API_VERSION) != 0) {
        return bt_ctl_refuse(e, INVALID, "apiVersion", "must be \"" BT_CONFIG_API_VERSION "\"; got \"%.64s\"",
                             c->api_version.text);
    }
    return check_sources(c, e) && check_service(&c->service, e) && check_members(c, e) && check_routers(c, e) &&
           check_key_ids(c, e);
}
