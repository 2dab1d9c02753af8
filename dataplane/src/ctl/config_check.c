// SPDX-License-Identifier: Apache-2.0
// What one field of a configuration document says about another. Every refusal names the first field at fault.
#include "ctl/config_internal.h"

#include "router/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bt_config_check_service(struct bt_shape_reader *r, void *base)
{
    const struct bt_config_service *s = &((const struct bt_config *)base)->service;
    if (s->hedging.given && s->policy != BT_ROUTER_JBSQ) {
        bt_shape_refuse(r, ".hedging.mode", "needs policy JBSQ; got \"%s\"", bt_router_policy_words[s->policy]);
        return;
    }
    if (s->scheduling.given && s->scheduling.min_cores > s->scheduling.max_cores) {
        bt_shape_refuse(r, ".scheduling.minCores", "must be at most maxCores, %" PRId64 "; got %" PRId64,
                        s->scheduling.max_cores, s->scheduling.min_cores);
    }
}

void bt_config_check_classes(struct bt_shape_reader *r, void *admission)
{
    const struct bt_config_admission *a = admission;
    unsigned seen = 0;
    for (size_t i = 0; i < a->n_droppable; i++) {
        char at[24];
        snprintf(at, sizeof at, "[%zu]", i);
        if ((seen & 1u << a->droppable[i]) != 0) {
            bt_shape_refuse(r, at, "class %" PRId64 " occurs twice; keep one", a->droppable[i]);
        }
        seen |= 1u << a->droppable[i];
    }
}

// What takes a port, sorted by address and port so that clashes become neighbours.
struct claim {
    struct bt_addr addr;
    size_t owner;
};

static int same_endpoint(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct bt_addr));
}

// Reports the lowest owner whose port somebody before it already has.
static void refuse_clash(struct bt_shape_reader *r, struct claim *claims, size_t n, const char *list, const char *what)
{
    const struct claim *worst = NULL;
    size_t first = 0;
    char at[24], text[BT_ADDR_TEXT];
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
    if (worst != NULL) {
        snprintf(at, sizeof at, "[%zu]", worst->owner);
        bt_shape_refuse(r, at, "port %s %s %s[%zu]", bt_addr_format(&worst->addr, text), what, list, first);
    }
}

// The ports of member i, behind those of the members before it. False: refused.
static bool claim_ports(struct bt_shape_reader *r, struct bt_config *c, size_t i, struct claim *claims)
{
    struct bt_config_member *m = &c->members[i];
    if (m->first_port + m->workers - 1 > 65535) {
        char at[32];
        snprintf(at, sizeof at, "[%zu].workers", i);
        bt_shape_refuse(r, at, "ports %" PRId64 "..%" PRId64 " pass 65535; lower firstPort or workers", m->first_port,
                        m->first_port + m->workers - 1);
        return false;
    }
    if (c->n_workers + (size_t)m->workers > BT_CONFIG_WORKERS_MAX) {
        bt_shape_refuse(r, "", "must have at most %u workers in all; got %zu", BT_CONFIG_WORKERS_MAX,
                        c->n_workers + (size_t)m->workers);
        return false;
    }
    m->addr.port = (uint16_t)m->first_port;
    for (int64_t w = 0; w < m->workers; w++) {
        struct claim *claim = &claims[c->n_workers++];
        claim->addr = m->addr;
        claim->addr.port = (uint16_t)(m->first_port + w);
        claim->owner = i;
    }
    return true;
}

void bt_config_check_members(struct bt_shape_reader *r, void *base)
{
    struct bt_config *c = base;
    bool ok = true;
    struct claim *claims = calloc(BT_CONFIG_WORKERS_MAX, sizeof *claims);
    if (claims == NULL) {
        bt_shape_refuse(r, "", "out of memory");
        return;
    }
    for (size_t i = 0; ok && i < c->n_members; i++) {
        ok = claim_ports(r, c, i, claims);
    }
    if (ok) {
        refuse_clash(r, claims, c->n_workers, "members", "is already a worker of");
    }
    free(claims);
}

void bt_config_check_routers(struct bt_shape_reader *r, void *base)
{
    struct bt_config *c = base;
    struct claim claims[2 * BT_CONFIG_ROUTERS_MAX];
    for (size_t i = 0; i < c->n_routers; i++) {
        struct bt_config_router *o = &c->routers[i];
        if (o->request_port == o->feedback_port) {
            char at[48];
            snprintf(at, sizeof at, "[%zu].feedbackPort", i);
            bt_shape_refuse(r, at, "must differ from requestPort; both are %" PRId64, o->request_port);
            return;
        }
        o->feedback = o->request;
        o->request.port = (uint16_t)o->request_port;
        o->feedback.port = (uint16_t)o->feedback_port;
        claims[2 * i] = (struct claim){o->request, i};
        claims[2 * i + 1] = (struct claim){o->feedback, i};
    }
    refuse_clash(r, claims, 2 * c->n_routers, "routers", "already belongs to");
}

void bt_config_check_key_ids(struct bt_shape_reader *r, void *base)
{
    const struct bt_config *c = base;
    if (c->n_key_ids == 2 && c->key_ids[1] == c->key_ids[0]) {
        bt_shape_refuse(r, "[1]", "key %" PRId64 " occurs twice; keep one", c->key_ids[1]);
    }
}
