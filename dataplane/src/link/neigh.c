// SPDX-License-Identifier: Apache-2.0
// The neighbours: which MAC an address on our link has, found out when first needed and checked while in use, so
// that a packet waits only for an address nobody has talked to. After RFC 4861 §7.3, without its DELAY state (there
// is no hint from above to wait for), and the same for ARP.
//
// The table is bounded. Entries come into being because we want to send, or, within a quarter of the table, because
// a host of our link asked for us; nobody else can fill it.
#include "link/internal.h"

#include <errno.h>

enum { LOOK = 16 }; // entries considered when one must go

struct neigh *link_neigh_find(const struct bt_link *l, const struct bt_addr *ip)
{
    uint32_t i = bt_pairs_find(&l->neigh_table, ip, 0);
    return i != BT_PAIRS_NONE ? &l->neigh[i] : NULL;
}

static void set_state(struct bt_link *l, struct neigh *n, enum neigh_state state)
{
    l->neigh_incomplete -= n->state == NEIGH_INCOMPLETE;
    l->neigh_incomplete += state == NEIGH_INCOMPLETE;
    n->state = (uint8_t)state;
    n->tries = 0;
}

static void set_stranger(struct bt_link *l, struct neigh *n, bool stranger)
{
    l->neigh_strangers -= n->stranger;
    l->neigh_strangers += stranger;
    n->stranger = stranger;
}

static void drop_waiting(struct bt_link *l, struct neigh *n, enum bt_link_counter why)
{
    for (struct bt_pkt *p; (p = bt_txq_pop(&n->waiting)) != NULL;) {
        link_event(l, &p->dst, p->local, EHOSTUNREACH, 0);
        link_drop(l, p, why);
    }
}

static void forget(struct bt_link *l, struct neigh *n)
{
    bt_wheel_del(&l->wheel, &n->timer);
    set_state(l, n, NEIGH_FREE);
    set_stranger(l, n, false);
    bt_pairs_del(&l->neigh_table, &n->ip, 0);
    link_plain_forget(l);
    n->next_free = l->neigh_free;
    l->neigh_free = (uint32_t)(n - l->neigh);
}

// --- who goes when the table is full

enum worth { KEEP, IDLE, ASKED, UNUSED, STRANGER, FAILED }; // the highest goes first

static enum worth worth_of(const struct bt_link *l, uint64_t now, const struct neigh *n)
{
    if (bt_addr_ip_eq(&n->ip, &l->gateway4) || bt_addr_ip_eq(&n->ip, &l->gateway6)) {
        return KEEP;
    }
    switch (n->state) {
    case NEIGH_FAILED:
        return FAILED;
    case NEIGH_STALE:
        return n->stranger ? STRANGER : UNUSED;
    case NEIGH_INCOMPLETE: // answers to forged sources may not push out those who exist
        return l->neigh_incomplete > l->neigh_max / 2 ? ASKED : KEEP;
    case NEIGH_REACHABLE:
    case NEIGH_PROBE:
        return now - n->used_ns > l->retry_ns * l->tries ? IDLE : KEEP;
    default:
        return KEEP;
    }
}

// Frees the entry of most worth `least` or more among the next few. False: there is none.
static bool make_room(struct bt_link *l, uint64_t now, enum worth least, enum worth most)
{
    struct neigh *victim = NULL;
    enum worth best = KEEP;
    uint32_t look = l->neigh_max < LOOK ? l->neigh_max : LOOK;
    for (uint32_t i = 0; i < look; i++) {
        struct neigh *n = &l->neigh[l->neigh_hand];
        l->neigh_hand = l->neigh_hand + 1 == l->neigh_max ? 0 : l->neigh_hand + 1;
        enum worth w = n->state != NEIGH_FREE ? worth_of(l, now, n) : KEEP;
        if (w >= least && w <= most && w > best) {
            best = w;
            victim = n;
        }
    }
    if (victim == NULL) {
        return false;
    }
    l->counters[BT_LINK_NEIGH_EVICTED]++;
    drop_waiting(l, victim, BT_LINK_TXDROP_TABLE_FULL);
    forget(l, victim);
    return true;
}

// Takes a free entry, which there must be.
static struct neigh *create(struct bt_link *l, uint64_t now, const struct bt_addr *ip, enum neigh_state state)
{
    uint32_t i = l->neigh_free;
    struct neigh *n = &l->neigh[i];
    l->neigh_free = n->next_free;
    n->ip = *ip;
    n->ip.port = 0;
    n->used_ns = n->confirmed_ns = now;
    memset(n->mac, 0, 6);
    set_state(l, n, state);
    bt_pairs_put(&l->neigh_table, &n->ip, 0, i);
    l->counters[BT_LINK_NEIGH_CREATED]++;
    return n;
}

struct neigh *link_neigh_want(struct bt_link *l, uint64_t now, const struct bt_addr *ip)
{
    struct neigh *n = link_neigh_find(l, ip);
    if (n != NULL) {
        return n;
    }
    if (l->neigh_free == LINK_NONE && !make_room(l, now, IDLE, FAILED)) {
        return NULL;
    }
    return create(l, now, ip, NEIGH_INCOMPLETE);
}

void link_neigh_stranger(struct bt_link *l, uint64_t now, const struct bt_addr *ip, const uint8_t mac[6])
{
    if (link_on_link(l, ip) == NULL) {
        return;
    }
    bool full = l->neigh_free == LINK_NONE, share = l->neigh_strangers >= l->neigh_max / 4;
    if ((full || share) && !make_room(l, now, STRANGER, share ? STRANGER : FAILED)) {
        l->counters[BT_LINK_NEIGH_REFUSED]++;
        return;
    }
    struct neigh *n = create(l, now, ip, NEIGH_STALE);
    memcpy(n->mac, mac, 6);
    set_stranger(l, n, true);
    bt_wheel_add(&l->wheel, &n->timer, now + l->forget_ns);
}

// --- asking

static void ask(struct bt_link *l, uint64_t now, struct neigh *n, struct bt_txq *out)
{
    const uint8_t *to = n->state == NEIGH_PROBE ? n->mac : NULL;
    const struct own_addr *own = link_on_link(l, &n->ip);
    for (unsigned i = 0; own == NULL; i++) { // a gateway outside every prefix: any own address of its family
        if (bt_addr_is_v4(&l->own[i].addr) == bt_addr_is_v4(&n->ip)) {
            own = &l->own[i];
        }
    }
    n->tries++;
    l->counters[BT_LINK_NEIGH_PROBES] += to != NULL;
    if (bt_addr_is_v4(&n->ip)) {
        link_arp_ask(l, &own->addr, &n->ip, to, out);
    } else {
        link_ndp_ask(l, &own->addr, &n->ip, to, out);
    }
    bt_wheel_add(&l->wheel, &n->timer, now + l->retry_ns);
}

void link_neigh_send(struct bt_link *l, uint64_t now, struct neigh *n, struct bt_pkt *frame, struct bt_txq *out)
{
    n->used_ns = now;
    set_stranger(l, n, false);
    switch (n->state) {
    case NEIGH_INCOMPLETE:
        if (n->waiting.n >= l->queue_limit) {
            link_drop(l, bt_txq_pop(&n->waiting), BT_LINK_TXDROP_QUEUE_FULL);
        }
        bt_txq_push(&n->waiting, frame);
        if (n->tries == 0) {
            ask(l, now, n, out);
        }
        return;
    case NEIGH_FAILED:
        link_event(l, &frame->dst, frame->local, EHOSTUNREACH, 0);
        link_drop(l, frame, BT_LINK_TXDROP_UNREACHABLE);
        return;
    case NEIGH_STALE:
        set_state(l, n, NEIGH_PROBE);
        ask(l, now, n, out);
        break;
    default:
        break;
    }
    memcpy(frame->data, n->mac, 6);
    l->counters[l->takes_tcp && frame->local == l->n_locals ? BT_LINK_TX_TCP : BT_LINK_TX_UDP]++;
    link_push(l, out, frame);
}

// --- hearing

static void flush(struct bt_link *l, uint64_t now, struct neigh *n, struct bt_txq *out)
{
    for (struct bt_pkt *p; (p = bt_txq_pop(&n->waiting)) != NULL;) {
        link_neigh_send(l, now, n, p, out);
    }
}

// Takes the MAC; counts when it replaces another one.
static void set_mac(struct bt_link *l, struct neigh *n, const uint8_t mac[6])
{
    bool known = n->state != NEIGH_INCOMPLETE && n->state != NEIGH_FAILED;
    l->counters[BT_LINK_NEIGH_CHANGED] += known && memcmp(n->mac, mac, 6) != 0;
    memmove(n->mac, mac, 6);
}

void link_neigh_confirm(struct bt_link *l, uint64_t now, struct neigh *n, const uint8_t mac[6], struct bt_txq *out)
{
    if (n->state == NEIGH_STATIC) {
        return;
    }
    set_mac(l, n, mac);
    set_state(l, n, NEIGH_REACHABLE);
    n->confirmed_ns = now;
    // Drawn anew each time, so that hosts that met at the same moment do not ask each other in step.
    uint64_t lasts = l->reachable_ns / 2 + (uint64_t)(bt_rng_unit(&l->rng) * (double)l->reachable_ns);
    bt_wheel_add(&l->wheel, &n->timer, now + lasts);
    flush(l, now, n, out);
}

void link_neigh_doubt(struct bt_link *l, uint64_t now, struct neigh *n)
{
    if (n->state == NEIGH_REACHABLE) {
        set_state(l, n, NEIGH_STALE);
        bt_wheel_add(&l->wheel, &n->timer, now + l->forget_ns);
    }
}

void link_neigh_hear(struct bt_link *l, uint64_t now, struct neigh *n, const uint8_t mac[6], struct bt_txq *out)
{
    bool known = n->state != NEIGH_INCOMPLETE && n->state != NEIGH_FAILED;
    if (n->state == NEIGH_STATIC || (known && memcmp(n->mac, mac, 6) == 0)) {
        return;
    }
    set_mac(l, n, mac);
    set_state(l, n, NEIGH_STALE);
    bt_wheel_add(&l->wheel, &n->timer, now + l->forget_ns);
    flush(l, now, n, out);
}

// --- time

static void fail(struct bt_link *l, uint64_t now, struct neigh *n)
{
    l->counters[BT_LINK_NEIGH_FAILED]++;
    drop_waiting(l, n, BT_LINK_TXDROP_UNREACHABLE);
    if (n->state == NEIGH_PROBE) { // the next packet starts from scratch, asking everybody
        forget(l, n);
        return;
    }
    set_state(l, n, NEIGH_FAILED);
    bt_wheel_add(&l->wheel, &n->timer, now + l->retry_ns);
}

static void grow_stale(struct bt_link *l, uint64_t now, struct neigh *n, struct bt_txq *out)
{
    if (n->used_ns > n->confirmed_ns) { // in use: ask before anybody has to wait
        set_state(l, n, NEIGH_PROBE);
        ask(l, now, n, out);
        return;
    }
    set_state(l, n, NEIGH_STALE);
    bt_wheel_add(&l->wheel, &n->timer, n->used_ns + l->forget_ns);
}

void link_neigh_timer(struct bt_link *l, uint64_t now, struct neigh *n, struct bt_txq *out)
{
    switch (n->state) {
    case NEIGH_INCOMPLETE:
    case NEIGH_PROBE:
        if (n->tries < l->tries) {
            ask(l, now, n, out);
        } else {
            fail(l, now, n);
        }
        break;
    case NEIGH_REACHABLE:
        grow_stale(l, now, n, out);
        break;
    case NEIGH_STALE:
    case NEIGH_FAILED:
        forget(l, n);
        break;
    default:
        break;
    }
}

void link_neigh_init(struct bt_link *l, const struct bt_link_config *cfg)
{
    l->neigh_free = 0;
    for (uint32_t i = 0; i < l->neigh_max; i++) {
        l->neigh[i].timer.kind = TIMER_NEIGH;
        l->neigh[i].next_free = i + 1 < l->neigh_max ? i + 1 : LINK_NONE;
    }
    for (unsigned i = 0; i < cfg->n_statics; i++) {
        struct bt_addr ip = cfg->statics[i].ip;
        ip.port = 0;
        struct neigh *n = link_neigh_find(l, &ip);
        n = n != NULL ? n : create(l, 0, &ip, NEIGH_STATIC);
        memcpy(n->mac, cfg->statics[i].mac, 6);
    }
}
