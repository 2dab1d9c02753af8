// SPDX-License-Identifier: Apache-2.0
// Judging a link's configuration: each refusal names the field, the element and what to do.
#include "link/config.h"

#include "base/bytes.h"
#include "wire/frame.h"

#define SECOND UINT64_C(1000000000)

static const struct bt_addr nowhere;

struct bt_link_config link_defaults(const struct bt_link_config *cfg)
{
    struct bt_link_config c = *cfg;
    c.mtu = c.mtu != 0 ? c.mtu : 1500;
    c.max_neighbours = c.max_neighbours != 0 ? c.max_neighbours : 1024;
    c.queue_per_neighbour = c.queue_per_neighbour != 0 ? c.queue_per_neighbour : 16;
    c.icmp_errors_per_s = c.icmp_errors_per_s != 0 ? c.icmp_errors_per_s : 100;
    c.icmp_echo_per_s = c.icmp_echo_per_s != 0 ? c.icmp_echo_per_s : 10000;
    c.retry_ns = c.retry_ns != 0 ? c.retry_ns : SECOND;
    c.tries = c.tries != 0 ? c.tries : 3;
    c.reachable_ns = c.reachable_ns != 0 ? c.reachable_ns : 30 * SECOND;
    c.forget_ns = c.forget_ns != 0 ? c.forget_ns : 600 * SECOND;
    c.announcements = c.announcements != 0 ? c.announcements : 2;
    return c;
}

bool link_speaks_v6(const struct bt_link_config *cfg)
{
    for (unsigned i = 0; i < cfg->n_addrs; i++) {
        if (!bt_addr_is_v4(&cfg->addrs[i].addr)) {
            return true;
        }
    }
    return false;
}

static bool no(struct bt_link_error *err, const char *field, unsigned index, const char *problem)
{
    *err = (struct bt_link_error){.field = field, .index = index, .problem = problem};
    return false;
}

// An address one host can have: no group, no loopback, not unspecified.
static bool is_host(const struct bt_addr *a)
{
    struct bt_addr with_port = *a;
    with_port.port = 1;
    static const uint8_t loopback[16] = {[15] = 1};
    return !bt_addr_bad_source(&with_port) && memcmp(a->ip, loopback, 16) != 0 &&
           !(bt_addr_is_v4(a) && a->ip[12] == 127);
}

static bool bad_mac(const uint8_t mac[6])
{
    static const uint8_t zero[6];
    return bt_mac_is_group(mac) || memcmp(mac, zero, 6) == 0;
}

// The broadcast address of its own network (E-6): every station would take what is sent to it.
static bool is_broadcast(const struct bt_link_prefix *p)
{
    return bt_addr_is_v4(&p->addr) && p->bits <= 30 && (~bt_get32(p->addr.ip + 12) & UINT32_MAX >> p->bits) == 0;
}

static bool check_addrs(const struct bt_link_config *c, struct bt_link_error *err)
{
    if (c->n_addrs == 0 || c->n_addrs > BT_LINK_MAX_ADDRS) {
        return no(err, "addrs", 0, "needs 1 to 16 addresses with prefix length, as 10.0.0.1/24");
    }
    for (unsigned i = 0; i < c->n_addrs; i++) {
        const struct bt_link_prefix *p = &c->addrs[i];
        if (!is_host(&p->addr)) {
            return no(err, "addrs", i, "is no address a host can have (unspecified, loopback or group)");
        }
        if (p->bits == 0 || p->bits > (bt_addr_is_v4(&p->addr) ? 32 : 128)) {
            return no(err, "addrs", i, "prefix length is not 1 to 32 (IPv4) or 1 to 128 (IPv6)");
        }
        if (is_broadcast(p)) {
            return no(err, "addrs", i, "is the broadcast address of its network");
        }
        for (unsigned j = 0; j < i; j++) {
            if (bt_addr_ip_eq(&p->addr, &c->addrs[j].addr)) {
                return no(err, "addrs", i, "is given twice");
            }
        }
    }
    return true;
}

static bool speaks_v4(const struct bt_link_config *c)
{
    for (unsigned i = 0; i < c->n_addrs; i++) {
        if (bt_addr_is_v4(&c->addrs[i].addr)) {
            return true;
        }
    }
    return false;
}

// A next hop that can never answer for itself: one of our own addresses, or a network's broadcast address.
static bool is_no_hop(const struct bt_link_config *c, const struct bt_addr *hop)
{
    for (unsigned i = 0; i < c->n_addrs; i++) {
        struct bt_link_prefix same = {.addr = *hop, .bits = c->addrs[i].bits};
        if (bt_addr_ip_eq(hop, &c->addrs[i].addr)) {
            return true;
        }
        if (bt_addr_is_v4(&c->addrs[i].addr) && is_broadcast(&same) &&
            (bt_get32(hop->ip + 12) ^ bt_get32(c->addrs[i].addr.ip + 12)) >> (32 - same.bits) == 0) {
            return true;
        }
    }
    return false;
}

static bool check_gateways(const struct bt_link_config *c, struct bt_link_error *err)
{
    bool has4 = memcmp(c->gateway4.ip, nowhere.ip, 16) != 0, has6 = memcmp(c->gateway6.ip, nowhere.ip, 16) != 0;
    if (has4 && !speaks_v4(c)) {
        return no(err, "gateway4", 0, "needs an IPv4 address in addrs");
    }
    if (has6 && !link_speaks_v6(c)) {
        return no(err, "gateway6", 0, "needs an IPv6 address in addrs");
    }
    if (has4 && (!bt_addr_is_v4(&c->gateway4) || !is_host(&c->gateway4))) {
        return no(err, "gateway4", 0, "is not the IPv4 address of a host");
    }
    if (has6 && (bt_addr_is_v4(&c->gateway6) || !is_host(&c->gateway6))) {
        return no(err, "gateway6", 0, "is not the IPv6 address of a host");
    }
    if (has4 && is_no_hop(c, &c->gateway4)) {
        return no(err, "gateway4", 0, "is an address of this port or its network's broadcast address");
    }
    if (has6 && is_no_hop(c, &c->gateway6)) {
        return no(err, "gateway6", 0, "is an address of this port");
    }
    return true;
}

static bool has_addr(const struct bt_link_config *c, const struct bt_addr *a)
{
    bool any = memcmp(a->ip, nowhere.ip, 16) == 0, any4 = bt_addr_is_v4(a) && memcmp(a->ip + 12, nowhere.ip, 4) == 0;
    bool own = !c->no_link_local && a->ip[0] == 0xfe && (a->ip[1] & 0xc0) == 0x80; // judged when it is derived
    for (unsigned i = 0; i < c->n_addrs && !own; i++) {
        bool v4 = bt_addr_is_v4(&c->addrs[i].addr);
        own = (any4 && v4) || (any && !v4) || bt_addr_ip_eq(a, &c->addrs[i].addr);
    }
    return own;
}

static bool check_locals(const struct bt_link_config *c, struct bt_link_error *err)
{
    if (c->n_locals > BT_LINK_MAX_LOCALS) {
        return no(err, "locals", 0, "has more than 1024 ports");
    }
    for (unsigned i = 0; i < c->n_locals; i++) {
        if (!has_addr(c, &c->locals[i])) {
            return no(err, "locals", i, "is at an address this port does not have: use one of addrs, or 0.0.0.0 or ::");
        }
        for (unsigned j = 0; j < i; j++) {
            if (c->locals[i].port != 0 && bt_addr_eq(&c->locals[i], &c->locals[j])) {
                return no(err, "locals", i, "is given twice");
            }
        }
    }
    return true;
}

static bool check_statics(const struct bt_link_config *c, struct bt_link_error *err)
{
    if (c->max_neighbours < 8 || c->max_neighbours > 1u << 20) {
        return no(err, "max_neighbours", 0, "is not 8 to 1048576");
    }
    if (c->n_statics > c->max_neighbours / 2) {
        return no(err, "statics", 0, "take more than half of max_neighbours");
    }
    for (unsigned i = 0; i < c->n_statics; i++) {
        if (!is_host(&c->statics[i].ip)) {
            return no(err, "statics", i, "is not the address of a host");
        }
        if (bad_mac(c->statics[i].mac)) {
            return no(err, "statics", i, "has no unicast MAC");
        }
        if (memcmp(c->statics[i].mac, c->mac, 6) == 0) {
            return no(err, "statics", i, "has this port's own MAC");
        }
    }
    return true;
}

bool link_check(const struct bt_link_config *c, struct bt_link_error *err)
{
    if (bad_mac(c->mac)) {
        return no(err, "mac", 0, "is not a unicast MAC");
    }
    if (c->pool == NULL) {
        return no(err, "pool", 0, "is missing");
    }
    if (!check_addrs(c, err)) {
        return false;
    }
    if (c->mtu < (link_speaks_v6(c) ? 1280 : 576) || c->mtu > 9000) {
        return no(err, "mtu", 0, "is not 576 to 9000, with IPv6 1280 to 9000");
    }
    if (c->tries > 100) {
        return no(err, "tries", 0, "is more than 100");
    }
    return check_gateways(c, err) && check_locals(c, err) && check_statics(c, err);
}
