// SPDX-License-Identifier: Apache-2.0
// What a document must be beyond its form: bounds, doubles, what may change.
#include "lb_config.h"

#include "ctl/file.h"
#include "lb_decode.h"
#include "link/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool refuse(struct bt_ctl_error *e, const char *field, uint32_t i, const char *rest, const char *problem)
{
    char path[64];
    snprintf(path, sizeof path, "%s[%u]%s", field, i, rest);
    return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, path, "%s", problem);
}

static bool file_address(struct lb_config *c, const struct bt_addr *addr)
{
    for (uint32_t i = 0; i < c->n_addrs; i++) {
        if (bt_addr_ip_eq(&c->addrs[i], addr)) {
            return true;
        }
    }
    if (c->n_addrs == LB_MAX_VIP_ADDRS) {
        return false;
    }
    c->addrs[c->n_addrs] = *addr;
    c->addrs[c->n_addrs++].port = 0;
    return true;
}

static bool check_servers(const struct lb_config *c, uint32_t v, struct bt_ctl_error *e)
{
    const struct lb_vip *vip = &c->vips[v];
    char field[32];
    snprintf(field, sizeof field, "vips[%u].servers", v);
    for (uint32_t i = 0; i < vip->n_servers; i++) {
        const struct bt_addr *server = &vip->servers[i].ip;
        if (bt_addr_is_v4(server) != bt_addr_is_v4(&vip->crab.addr)) {
            return refuse(e, field, i, ".address",
                          "is not of the VIP's family: IPv4 and IPv6 each need their own (C-9)");
        }
        for (uint32_t k = 0; k < c->n_vips; k++) {
            if (bt_addr_ip_eq(server, &c->vips[k].crab.addr)) {
                return refuse(e, field, i, ".address", "is the address of a VIP; a server needs one of its own");
            }
        }
        for (uint32_t k = 0; k < i; k++) {
            if (bt_addr_ip_eq(server, &vip->servers[k].ip)) {
                return refuse(e, field, i, ".address", "stands in the list before; give a weight instead");
            }
        }
    }
    return true;
}

static bool check(struct lb_config *c, struct bt_ctl_error *e)
{
    if (c->n_vips == 0) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "vips", "must name at least one VIP");
    }
    for (uint32_t v = 0; v < c->n_vips; v++) {
        const struct lb_vip *vip = &c->vips[v];
        for (uint32_t k = 0; k < v; k++) {
            if (bt_addr_eq(&vip->crab.addr, &c->vips[k].crab.addr)) {
                return refuse(e, "vips", v, "", "has address and port of an earlier one");
            }
        }
        if (!file_address(c, &vip->crab.addr)) {
            return refuse(e, "vips", v, ".address", "is one more than the 15 different addresses a port can have");
        }
        if (!check_servers(c, v, e)) {
            return false;
        }
        c->vips[v].first = c->n_servers;
        c->n_servers += vip->n_servers;
    }
    if (c->n_servers > BT_CRAB_MAX_PROBED) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "vips", "have %u servers; at most %u can be probed",
                             c->n_servers, BT_CRAB_MAX_PROBED);
    }
    return true;
}

bool lb_config_parse(const char *text, size_t len, struct lb_config *c, struct bt_ctl_error *e)
{
    *c = (struct lb_config){.encoding = {.kind = BT_CRAB_KIND},
                            .probe = {.failures = 3, .successes = 2},
                            .probe_interval_ms = 1000,
                            .probe_timeout_ms = 500};
    if (lb_decode(text, len, c, e) && check(c, e)) {
        return true;
    }
    lb_config_free(c);
    return false;
}

bool lb_config_read(const char *path, struct lb_config *c, struct bt_ctl_error *e)
{
    size_t len;
    char *text = bt_file_read(path, &len, e);
    *c = (struct lb_config){0};
    if (text == NULL) {
        return false;
    }
    bool ok = lb_config_parse(text, len, c, e);
    free(text);
    return ok;
}

bool lb_config_fits(const struct lb_config *c, const struct bt_addr *own, unsigned n_own, struct bt_ctl_error *e)
{
    for (uint32_t v = 0; v < c->n_vips; v++) {
        const struct bt_addr *addr = &c->vips[v].crab.addr;
        bool asked_from = false;
        for (unsigned i = 0; i < n_own; i++) {
            if (bt_addr_ip_eq(addr, &own[i])) {
                return refuse(e, "vips", v, ".address", "is the balancer's own; a VIP needs another one");
            }
            asked_from = asked_from || bt_addr_is_v4(addr) == bt_addr_is_v4(&own[i]);
        }
        if (!asked_from) {
            return refuse(e, "vips", v, ".address",
                          bt_addr_is_v4(addr) ? "needs a balancer with an IPv4 address of its own; give --address"
                                              : "needs a balancer with an IPv6 address of its own; give --address6");
        }
    }
    if (c->n_addrs + n_own > BT_LINK_MAX_ADDRS) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "vips", "have %u different addresses; with %u own ones %u do",
                             c->n_addrs, n_own, BT_LINK_MAX_ADDRS - n_own);
    }
    return true;
}

bool lb_config_may_follow(const struct lb_config *old, const struct lb_config *new, struct bt_ctl_error *e)
{
    if (new->encoding.kind != old->encoding.kind || new->encoding.experiment != old->encoding.experiment) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "option", "cannot change while running; restart instead");
    }
    if (new->n_vips != old->n_vips) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, "vips",
                             "has %u VIPs where %u are served; restart instead (connections do not notice)",
                             new->n_vips, old->n_vips);
    }
    for (uint32_t v = 0; v < new->n_vips; v++) {
        const struct bt_crab_vip_config *a = &old->vips[v].crab, *b = &new->vips[v].crab;
        if (!bt_addr_eq(&a->addr, &b->addr) || a->policy != b->policy || a->fallback != b->fallback ||
            a->assume_capable != b->assume_capable) {
            return refuse(e, "vips", v, "", "differs in more than its servers; restart instead");
        }
    }
    return true;
}

void lb_config_free(struct lb_config *c)
{
    for (uint32_t v = 0; v < c->n_vips; v++) {
        free(c->vips[v].servers);
    }
    free(c->vips);
    *c = (struct lb_config){0};
}
