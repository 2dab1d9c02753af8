// SPDX-License-Identifier: Apache-2.0
// Setting up a link, its timers and counters, and the small things every part of it needs.
#include "link/internal.h"

#include "base/mem.h"
#include "link/config.h"

#define DROPPED(value) {"link_rx_dropped_total", "reason", value}
#define REFUSED(value) {"link_tx_dropped_total", "reason", value}
#define NEIGH(value)   {"link_neighbours_total", "event", value}

static const struct bt_counter_desc counter_descs[BT_LINK_COUNTERS] = {
    [BT_LINK_RX_FRAMES] = {"link_rx_frames_total", NULL, NULL},
    [BT_LINK_RX_UNFINISHED] = {"link_rx_unfinished_checksums_total", NULL, NULL},
    [BT_LINK_RX_UDP] = {"link_rx_total", "kind", "udp"},
    [BT_LINK_RX_TCP] = {"link_rx_total", "kind", "tcp"},
    [BT_LINK_RX_ARP] = {"link_rx_total", "kind", "arp"},
    [BT_LINK_RX_NDP] = {"link_rx_total", "kind", "ndp"},
    [BT_LINK_RX_ECHO] = {"link_rx_total", "kind", "echo"},
    [BT_LINK_RX_ICMP_ERROR] = {"link_rx_total", "kind", "icmp_error"},
    [BT_LINK_DROP_TRUNCATED] = DROPPED("truncated"),
    [BT_LINK_DROP_MAC] = DROPPED("mac"),
    [BT_LINK_DROP_VLAN] = DROPPED("vlan"),
    [BT_LINK_DROP_ETHERTYPE] = DROPPED("ethertype"),
    [BT_LINK_DROP_IP_HEADER] = DROPPED("ip_header"),
    [BT_LINK_DROP_IP_OPTIONS] = DROPPED("ip_options"),
    [BT_LINK_DROP_IP_SUM] = DROPPED("ip_checksum"),
    [BT_LINK_DROP_FRAGMENT] = DROPPED("fragment"),
    [BT_LINK_DROP_ADDRESS] = DROPPED("address"),
    [BT_LINK_DROP_GROUP] = DROPPED("group"),
    [BT_LINK_DROP_MARTIAN] = DROPPED("martian"),
    [BT_LINK_DROP_PROTOCOL] = DROPPED("protocol"),
    [BT_LINK_DROP_UDP_LENGTH] = DROPPED("udp_length"),
    [BT_LINK_DROP_UDP_SUM] = DROPPED("udp_checksum"),
    [BT_LINK_DROP_UDP_PORT] = DROPPED("udp_port"),
    [BT_LINK_DROP_ARP] = DROPPED("arp"),
    [BT_LINK_DROP_NDP] = DROPPED("ndp"),
    [BT_LINK_DROP_ICMP] = DROPPED("icmp"),
    [BT_LINK_DROP_ICMP_FOREIGN] = DROPPED("icmp_foreign"),
    [BT_LINK_DROP_RATE] = DROPPED("rate"),
    [BT_LINK_TX_FRAMES] = {"link_tx_frames_total", NULL, NULL},
    [BT_LINK_TX_UDP] = {"link_tx_total", "kind", "udp"},
    [BT_LINK_TX_TCP] = {"link_tx_total", "kind", "tcp"},
    [BT_LINK_TX_ARP] = {"link_tx_total", "kind", "arp"},
    [BT_LINK_TX_NDP] = {"link_tx_total", "kind", "ndp"},
    [BT_LINK_TX_ICMP_ERROR] = {"link_tx_total", "kind", "icmp_error"},
    [BT_LINK_TXDROP_TOO_LONG] = REFUSED("too_long"),
    [BT_LINK_TXDROP_BAD_ADDRESS] = REFUSED("bad_address"),
    [BT_LINK_TXDROP_NO_ROUTE] = REFUSED("no_route"),
    [BT_LINK_TXDROP_TTL] = REFUSED("ttl"),
    [BT_LINK_TXDROP_NO_ROOM] = REFUSED("no_room"),
    [BT_LINK_TXDROP_QUEUE_FULL] = REFUSED("queue_full"),
    [BT_LINK_TXDROP_UNREACHABLE] = REFUSED("unreachable"),
    [BT_LINK_TXDROP_TABLE_FULL] = REFUSED("table_full"),
    [BT_LINK_TX_NO_BUFFER] = {"link_no_buffer_total", NULL, NULL},
    [BT_LINK_ICMP_LIMITED] = {"link_icmp_limited_total", NULL, NULL},
    [BT_LINK_NEIGH_CREATED] = NEIGH("created"),
    [BT_LINK_NEIGH_CHANGED] = NEIGH("changed"),
    [BT_LINK_NEIGH_PROBES] = NEIGH("probed"),
    [BT_LINK_NEIGH_FAILED] = NEIGH("failed"),
    [BT_LINK_NEIGH_EVICTED] = NEIGH("evicted"),
    [BT_LINK_NEIGH_REFUSED] = NEIGH("refused"),
    [BT_LINK_CONFLICTS] = {"link_address_conflicts_total", NULL, NULL},
    [BT_LINK_EVENTS_LOST] = {"link_events_lost_total", NULL, NULL},
};

// --- what every part needs

void link_drop(struct bt_link *l, struct bt_pkt *pkt, enum bt_link_counter why)
{
    l->counters[why]++;
    bt_pool_put(l->pool, pkt);
}

void link_event(struct bt_link *l, const struct bt_addr *peer, uint16_t local, int error, uint16_t mtu)
{
    if (l->n_events == LINK_EVENTS) {
        l->counters[BT_LINK_EVENTS_LOST]++;
        return;
    }
    uint32_t at = (l->events_first + l->n_events++) % LINK_EVENTS;
    l->events[at] = (struct bt_link_event){.peer = *peer, .local = local, .mtu = mtu, .error = error};
}

const struct own_addr *link_own(const struct bt_link *l, const struct bt_addr *a)
{
    for (unsigned i = 0; i < l->n_own; i++) {
        if (bt_addr_ip_eq(a, &l->own[i].addr)) {
            return &l->own[i];
        }
    }
    return NULL;
}

const struct own_addr *link_on_link(const struct bt_link *l, const struct bt_addr *a)
{
    uint64_t w[2];
    memcpy(w, a->ip, sizeof w);
    for (unsigned i = 0; i < l->n_own; i++) {
        const struct own_addr *o = &l->own[i];
        if ((((w[0] & o->mask[0]) ^ o->net[0]) | ((w[1] & o->mask[1]) ^ o->net[1])) == 0) {
            return o;
        }
    }
    return NULL;
}

uint32_t link_find_local(const struct bt_link *l, const struct bt_addr *dst)
{
    uint32_t any = LINK_NONE;
    for (uint32_t i = l->port_buckets[dst->port & l->port_mask]; i != 0; i = l->locals[i - 1].next) {
        const struct local_port *p = &l->locals[i - 1];
        if (p->addr.port != dst->port) {
            continue;
        }
        if (bt_addr_ip_eq(&p->addr, dst)) {
            return i - 1;
        }
        if (p->any && bt_addr_is_v4(&p->addr) == bt_addr_is_v4(dst)) {
            any = i - 1;
        }
    }
    return any;
}

static void bucket_init(struct bucket *b, uint32_t per_second, uint32_t burst, uint64_t now)
{
    b->cost_ns = LINK_SECOND / per_second;
    b->credit_ns = b->most_ns = b->cost_ns * burst;
    b->since_ns = now;
}

bool link_allowed(struct bucket *b, uint64_t now)
{
    if (now > b->since_ns) {
        uint64_t gained = now - b->since_ns;
        b->credit_ns = gained < b->most_ns - b->credit_ns ? b->credit_ns + gained : b->most_ns;
        b->since_ns = now;
    }
    if (b->credit_ns < b->cost_ns) {
        return false;
    }
    b->credit_ns -= b->cost_ns;
    return true;
}

bool link_resize(struct bt_pkt *pkt, uint32_t n)
{
    uint32_t space = pkt->len + pkt->room_after;
    if (n > space) {
        return false;
    }
    pkt->len = n;
    pkt->room_after = space - n;
    return true;
}

struct bt_pkt *link_make(struct bt_link *l, uint32_t n)
{
    struct bt_pkt *pkt = bt_pool_get(l->pool);
    if (pkt == NULL || !link_resize(pkt, n)) {
        l->counters[BT_LINK_TX_NO_BUFFER]++;
        if (pkt != NULL) {
            bt_pool_put(l->pool, pkt);
        }
        return NULL;
    }
    return pkt;
}

void link_push(struct bt_link *l, struct bt_txq *out, struct bt_pkt *frame)
{
    l->counters[BT_LINK_TX_FRAMES]++;
    bt_txq_push(out, frame);
}

// --- setting up

static void add_own(struct bt_link *l, const struct bt_addr *addr, unsigned bits)
{
    struct own_addr *o = &l->own[l->n_own++];
    bool v4 = bt_addr_is_v4(addr);
    uint8_t mask[16] = {0}, net[16];
    memset(o, 0, sizeof *o);
    o->addr = *addr;
    o->addr.port = 0;
    bits += v4 ? 96 : 0;
    for (unsigned i = 0; i < 16; i++) {
        unsigned here = bits > 8 * i ? bits - 8 * i : 0;
        mask[i] = (uint8_t)(here >= 8 ? 0xff : 0xff00u >> here);
        net[i] = addr->ip[i] & mask[i];
    }
    memcpy(o->mask, mask, 16);
    memcpy(o->net, net, 16);
    o->link_local = addr->ip[0] == 0xfe && (addr->ip[1] & 0xc0) == 0x80;
    if (v4 && bits <= 96 + 30) {
        o->broadcast = o->addr;
        for (unsigned i = 12; i < 16; i++) {
            o->broadcast.ip[i] = (uint8_t)(net[i] | (uint8_t)~mask[i]);
        }
    }
    l->has_v6 = l->has_v6 || !v4;
}

// fe80::/64 and the MAC as modified EUI-64 (RFC 4291 §2.5.6).
static struct bt_addr link_local_of(const uint8_t mac[6])
{
    return (struct bt_addr){
        .ip = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]}};
}

static void add_addrs(struct bt_link *l, const struct bt_link_config *c)
{
    for (unsigned i = 0; i < c->n_addrs; i++) {
        add_own(l, &c->addrs[i].addr, c->addrs[i].bits);
    }
    struct bt_addr own = link_local_of(c->mac);
    if (l->has_v6 && !c->no_link_local && link_own(l, &own) == NULL) {
        add_own(l, &own, 64);
    }
}

static void file_local(struct bt_link *l, unsigned i)
{
    uint16_t *bucket = &l->port_buckets[l->locals[i].addr.port & l->port_mask];
    l->locals[i].next = *bucket;
    *bucket = (uint16_t)(i + 1);
}

static bool add_locals(struct bt_link *l, const struct bt_link_config *c, struct bt_link_error *err)
{
    for (unsigned i = 0; i < c->n_locals; i++) {
        struct local_port *p = &l->locals[i];
        static const uint8_t zero[16];
        p->addr = c->locals[i];
        p->any = memcmp(p->addr.ip + (bt_addr_is_v4(&p->addr) ? 12 : 0), zero, bt_addr_is_v4(&p->addr) ? 4 : 16) == 0;
        if (!p->any && link_own(l, &p->addr) == NULL) {
            *err = (struct bt_link_error){"locals", i, "is at a link-local address this port does not have"};
            return false;
        }
        if (p->addr.port != 0) {
            file_local(l, i);
        }
    }
    uint32_t at = bt_rng_below(&l->rng, 16384);
    for (unsigned i = 0; i < c->n_locals; i++) {
        struct local_port *p = &l->locals[i];
        while (p->addr.port == 0) { // at most 1024 of 16384 are taken
            struct bt_addr a = p->addr;
            a.port = (uint16_t)(49152 + at++ % 16384);
            if (link_find_local(l, &a) == LINK_NONE) {
                p->addr = a;
                file_local(l, i);
            }
        }
    }
    return true;
}

static struct bt_link *lay_out(struct bt_mem *m, const struct bt_link_config *c)
{
    uint32_t buckets = 16;
    while (buckets < 2 * c->n_locals) {
        buckets *= 2;
    }
    struct bt_link *l = bt_mem_take(m, sizeof *l);
    struct local_port *locals = bt_mem_take(m, c->n_locals * sizeof *locals);
    uint16_t *port_buckets = bt_mem_take(m, buckets * sizeof *port_buckets);
    struct neigh *neigh = bt_mem_take(m, c->max_neighbours * sizeof *neigh);
    void *table = bt_mem_take(m, bt_pairs_bytes(c->max_neighbours));
    if (m->base == NULL || m->overflowed) {
        return NULL;
    }
    l->locals = locals;
    l->n_locals = c->n_locals;
    l->port_buckets = port_buckets;
    l->port_mask = buckets - 1;
    l->neigh = neigh;
    l->neigh_max = c->max_neighbours;
    bt_rng_seed(&l->rng, c->seed);
    uint64_t seed[2] = {bt_rng_next(&l->rng), bt_rng_next(&l->rng)};
    bt_pairs_init(&l->neigh_table, table, c->max_neighbours, seed);
    return l;
}

size_t bt_link_bytes(const struct bt_link_config *cfg)
{
    struct bt_link_config c = link_defaults(cfg);
    struct bt_mem m;
    bt_mem_init(&m, NULL, 0);
    lay_out(&m, &c);
    return m.used;
}

static void copy_settings(struct bt_link *l, const struct bt_link_config *c)
{
    static const struct bt_addr none;
    memcpy(l->mac, c->mac, 6);
    l->mtu = c->mtu;
    l->tx_ip_sum = c->tx_ip_sum;
    l->tx_udp_sum = c->tx_udp_sum;
    l->tx_no_udp_sum = c->tx_no_udp_sum && !c->tx_udp_sum;
    l->tx_offload4 = (uint8_t)((c->tx_udp_sum ? BT_PKT_TX_UDP_SUM : 0) | (c->tx_ip_sum ? BT_PKT_TX_IP_SUM : 0));
    l->rx_trusted = c->rx_trusted;
    l->rx_unfinished = c->rx_unfinished;
    l->takes_tcp = c->takes_tcp;
    l->secondary = c->secondary;
    l->gateway4 = c->gateway4;
    l->gateway6 = c->gateway6;
    l->gateway4.port = l->gateway6.port = 0;
    l->has_gateway4 = !bt_addr_ip_eq(&c->gateway4, &none);
    l->has_gateway6 = !bt_addr_ip_eq(&c->gateway6, &none);
    l->tries = c->tries;
    l->queue_limit = c->queue_per_neighbour;
    l->announcements = c->announcements == UINT32_MAX || c->secondary ? 0 : c->announcements;
    l->retry_ns = c->retry_ns;
    l->reachable_ns = c->reachable_ns;
    l->forget_ns = c->forget_ns;
    l->pool = c->pool;
}

struct bt_link *bt_link_init(void *mem, size_t bytes, const struct bt_link_config *cfg, uint64_t now,
                             struct bt_link_error *err)
{
    struct bt_link_error ignored;
    err = err != NULL ? err : &ignored;
    struct bt_link_config c = link_defaults(cfg);
    if (!link_check(&c, err)) {
        return NULL;
    }
    struct bt_mem m;
    bt_mem_init(&m, mem, bytes);
    struct bt_link *l = lay_out(&m, &c);
    if (l == NULL) {
        *err = (struct bt_link_error){"mem", 0, "is smaller than bt_link_bytes says"};
        return NULL;
    }
    copy_settings(l, &c);
    add_addrs(l, &c);
    if (!add_locals(l, &c, err)) {
        return NULL;
    }
    link_plain_init(l);
    bt_wheel_init(&l->wheel, now);
    bucket_init(&l->errors, c.icmp_errors_per_s, 32, now);
    bucket_init(&l->echoes, c.icmp_echo_per_s, 256, now);
    link_neigh_init(l, &c);
    l->announce_timer.kind = TIMER_ANNOUNCE;
    l->report_timer.kind = TIMER_REPORT;
    bt_link_announce(l, now);
    return l;
}

void bt_link_close(struct bt_link *l)
{
    for (uint32_t i = 0; i < l->neigh_max; i++) {
        bt_pool_put_chain(l->pool, l->neigh[i].waiting.head);
    }
}

// --- time

struct turn {
    struct bt_link *l;
    uint64_t now;
    struct bt_txq *out;
};

static void fire(void *arg, struct bt_timer *t)
{
    const struct turn *turn = arg;
    if (t->kind == TIMER_ANNOUNCE) {
        link_announce_timer(turn->l, turn->now, turn->out);
    } else if (t->kind == TIMER_REPORT) {
        link_report_timer(turn->l, turn->out);
    } else {
        link_neigh_timer(turn->l, turn->now, (struct neigh *)(void *)t, turn->out);
    }
}

void bt_link_tick(struct bt_link *l, uint64_t now, struct bt_txq *out)
{
    struct turn turn = {l, now, out};
    bt_wheel_advance(&l->wheel, now, fire, &turn);
}

uint64_t bt_link_next(const struct bt_link *l)
{
    return bt_wheel_next(&l->wheel);
}

// --- questions

unsigned bt_link_events(struct bt_link *l, struct bt_link_event *ev, unsigned max)
{
    unsigned n = 0;
    for (; n < max && l->n_events > 0; n++, l->n_events--) {
        ev[n] = l->events[l->events_first];
        l->events_first = (l->events_first + 1) % LINK_EVENTS;
    }
    return n;
}

struct bt_addr bt_link_local(const struct bt_link *l, uint32_t local)
{
    return local < l->n_locals ? l->locals[local].addr : (struct bt_addr){0};
}

unsigned bt_link_groups(const struct bt_link *l, uint8_t (*macs)[6], unsigned max)
{
    unsigned n = 0;
    struct bt_addr group = {.ip = {0xff, 0x02, [15] = 1}}; // all nodes
    for (unsigned i = 0; i <= l->n_own && l->has_v6; i++) {
        if (i > 0) {
            if (bt_addr_is_v4(&l->own[i - 1].addr)) {
                continue;
            }
            group = bt_ip6_solicited_node(&l->own[i - 1].addr);
        }
        if (n < max) {
            bt_ip6_group_mac(&group, macs[n]);
        }
        n++;
    }
    return n;
}

const uint64_t *bt_link_counters(const struct bt_link *l, const struct bt_counter_desc **desc, unsigned *n)
{
    *desc = counter_descs;
    *n = BT_LINK_COUNTERS;
    return l->counters;
}
