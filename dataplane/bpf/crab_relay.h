/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Connections to servers whose host has no agent (C-42, C-43): nobody there would answer from the VIP, and the
 * stack of the balancer's host knows nothing of it (kube-proxy leaves addresses with ipMode Proxy alone). So the
 * balancer stands between both sides: the server sees the VIP and a port of ours, the client sees the VIP.
 *
 * The VIP is on no device, so its ports are all ours but for those that are served. Ours are above those that Linux
 * gives to clients by default: a packet is told from all others by one comparison.
 */
#ifndef CRAB_RELAY_H
#define CRAB_RELAY_H

#include "crab_route.h"
#include "crab_kept.h"
#include "crab_pool.h"

#define CRAB_RELAY_PORT     61000
#define CRAB_RELAY_PORTS    (65536 - CRAB_RELAY_PORT)
#define CRAB_RELAY_TRIES    16
#define CRAB_RELAY_WINDOW   (1 << 20) /* so far from what was seen a segment is believed */
#define CRAB_RELAY_BEHIND   (1 << 22) /* so far behind what was sent an acknowledgement is */
#define CRAB_RELAY_SYN_DATA 2048
#define CRAB_RELAY_SILENT   (60ULL * 1000 * 1000 * 1000) /* a live connection, or else its server may be gone */

/* A relay keeps two entries; the second map is the larger one, so that it is the first that pushes live ones out. */
CRAB_MAP(BPF_MAP_TYPE_LRU_HASH, crab_relays, struct crab_tuple, struct crab_relay, 65536);
CRAB_MAP(BPF_MAP_TYPE_LRU_HASH, crab_relays_back, struct crab_tuple, struct crab_relay_back, 131072);

enum crab_relay_way { CRAB_RELAY_OUT = 0, CRAB_RELAY_BACK = 1 };

/* The connection as the server sees it. */
static __always_inline struct crab_tuple crab_relay_key(struct crab_tuple *t, crab_addr dip, __be16 port)
{
    return (struct crab_tuple){.client = t->server, .server = dip, .client_port = port, .server_port = t->server_port};
}

static __always_inline int crab_relay_over(struct crab_relay *r)
{
    const __u8 both = CRAB_ENDED_CLIENT_FIN | CRAB_ENDED_SERVER_FIN;

    return r->ended & CRAB_ENDED_RST || (r->ended & both) == both;
}

/*
 * Until the server has answered, and answers again, perhaps by another cookie. Its SYN-ACK and its refusal acknowledge
 * the client's SYN; before, nobody's ACK opens anything. A SYN may have data, and all of it may be acknowledged.
 */
static __always_inline void crab_relay_begins(struct crab_relay *r, struct crab_packet *p, int way)
{
    if (way == CRAB_RELAY_OUT && p->flags & CRAB_RST && p->seq == r->next_out) {
        r->ended |= CRAB_ENDED_RST | CRAB_ENDED_CLIENT_RST;
    }
    if (way == CRAB_RELAY_OUT && (p->flags & CRAB_STATE) == CRAB_SYN && !r->answered) {
        r->next_out = p->seq + 1;
    }
    if (way == CRAB_RELAY_OUT || !(p->flags & CRAB_ACK) || p->ack - r->next_out > CRAB_RELAY_SYN_DATA) {
        return;
    }
    if (p->flags & CRAB_RST) {
        r->ended |= CRAB_ENDED_RST;
    } else if (p->flags & CRAB_SYN) {
        r->next_back = p->seq + 1;
        r->next_out = p->ack;
        r->answered = 1;
    }
}

/* A segment of one who ends the connection, and stands where its next byte is. */
static __always_inline void crab_relay_closes(struct crab_relay *r, __u8 flags, int way)
{
    if (flags & CRAB_RST) {
        r->ended |= way == CRAB_RELAY_OUT ? CRAB_ENDED_RST | CRAB_ENDED_CLIENT_RST : CRAB_ENDED_RST;
    } else {
        r->ended |= way == CRAB_RELAY_OUT ? CRAB_ENDED_CLIENT_FIN : CRAB_ENDED_SERVER_FIN;
    }
}

/* Who goes on has sent no RST. */
static __always_inline void crab_relay_goes(struct crab_relay *r, __u8 flags, int way)
{
    __u8 reset = way == CRAB_RELAY_OUT ? CRAB_ENDED_RST | CRAB_ENDED_CLIENT_RST : CRAB_ENDED_RST;

    if (!(flags & CRAB_RST) && (r->ended & (CRAB_ENDED_RST | CRAB_ENDED_CLIENT_RST)) == reset) {
        r->ended &= ~reset;
    }
}

/* Does a segment acknowledge about what the other side has sent, and end about where its sender is? */
static __always_inline int crab_relay_fits(struct crab_packet *p, __u32 end, __u32 next, __u32 other)
{
    return p->flags & CRAB_ACK && p->ack - other + CRAB_RELAY_BEHIND <= CRAB_RELAY_BEHIND + CRAB_RELAY_WINDOW &&
           end - next + CRAB_RELAY_WINDOW <= 2 * CRAB_RELAY_WINDOW;
}

/*
 * What a segment says of the connection's state. An end counts where the sender's next byte is, which nobody
 * guesses who does not see the connection. A segment moves that place only if it also acknowledges about what the
 * other side has sent; and who goes on has sent no RST.
 */
CRAB_PART void crab_relay_passes(struct crab_relay *r, struct crab_packet *p, int way)
{
    __u32 end = p->seq + p->length - (p->l4 - ETH_HLEN) - p->doff;
    __u32 *next = way == CRAB_RELAY_OUT ? &r->next_out : &r->next_back;
    __u32 other = way == CRAB_RELAY_OUT ? r->next_back : r->next_out;

    if (!(p->flags & CRAB_SYN)) {
        r->last_ns = bpf_ktime_get_ns();
    }
    if (!r->answered || (p->flags & CRAB_SYN && !r->opened)) {
        crab_relay_begins(r, p, way);
        return;
    }
    if (p->flags & CRAB_SYN) {
        return;
    }
    if (way == CRAB_RELAY_OUT && p->flags & CRAB_ACK && p->ack == r->next_back) {
        r->opened = 1;
    }
    if (p->flags & (CRAB_FIN | CRAB_RST) && p->seq == *next) {
        crab_relay_closes(r, p->flags, way);
    }
    if (crab_relay_fits(p, end, *next, other)) {
        crab_relay_goes(r, p->flags, way);
        *next = (__s32)(end - *next) > 0 ? end : *next;
    }
}

/* The entries of one connection; t is the client's side. */
CRAB_PART void crab_relay_end(struct crab_tuple *t, struct crab_relay *r)
{
    struct crab_tuple back = crab_relay_key(t, r->dip, r->port);

    crab_drop(&crab_relays_back, &back, CRAB_LB_RELAY_BACK_REMOVED);
    crab_drop(&crab_relays, t, CRAB_LB_RELAY_REMOVED);
}

/* A search for a port: all tries look at places that follow from the client, and the best of them is kept. */
struct crab_relay_search {
    struct crab_tuple back; /* the connection as the server would see it */
    __u64 now, rank;
    __u32 start;
    __be16 port; /* 0: none */
};

/*
 * How well this port may be taken: one that is free; of a connection that is over, the longer the better; of a
 * handshake without end, the same, so that who never ends any holds no port against others. 0: a live connection has
 * it.
 */
static __always_inline __u64 crab_relay_rank(struct crab_relay_search *s)
{
    struct crab_relay_back *b = bpf_map_lookup_elem(&crab_relays_back, &s->back);

    if (!b) {
        return ~0ULL;
    }
    struct crab_tuple t = {
        .client = b->client, .server = s->back.client, .client_port = b->port, .server_port = s->back.server_port};
    struct crab_relay *r = bpf_map_lookup_elem(&crab_relays, &t);
    if (!r || r->port != s->back.client_port || !crab_addr_same(r->dip, s->back.server)) {
        return ~0ULL; /* left behind by one that was pushed out */
    }
    if (r->opened && !crab_relay_over(r)) {
        return 0;
    }
    return 1 + (s->now - r->last_ns) + (r->opened ? 1ULL << 62 : 0);
}

/* A loop the verifier looks at once. */
static long crab_relay_try(__u32 turn, struct crab_relay_search *s)
{
    s->back.client_port = bpf_htons(CRAB_RELAY_PORT + (s->start + turn * 277) % CRAB_RELAY_PORTS);
    if (crab_vip_of(s->back.client, s->back.client_port)) {
        return 0;
    }
    __u64 rank = crab_relay_rank(s);
    if (rank > s->rank) {
        s->rank = rank;
        s->port = s->back.client_port;
    }
    return s->rank == ~0ULL;
}

/* Take the port from whom it may be taken. */
CRAB_PART void crab_relay_evict(struct crab_tuple *back)
{
    struct crab_relay_back *b = bpf_map_lookup_elem(&crab_relays_back, back);

    if (!b) {
        return;
    }
    struct crab_tuple t = {
        .client = b->client, .server = back->client, .client_port = b->port, .server_port = back->server_port};
    struct crab_relay *r = bpf_map_lookup_elem(&crab_relays, &t);
    if (r && r->port == back->client_port && crab_addr_same(r->dip, back->server)) {
        crab_drop(&crab_relays, &t, CRAB_LB_RELAY_REMOVED);
    }
}

/* Both entries, where the port's last user left them. */
CRAB_PART int crab_relay_keep(struct crab_tuple *t, struct crab_relay_search *s, struct crab_choice *c)
{
    struct crab_relay_back back = {.client = t->client, .port = t->client_port};
    struct crab_relay r = {.last_ns = s->now, .dip = c->dip, .place = c->place, .port = s->port};

    return crab_keep(&crab_relays_back, &s->back, &back, CRAB_LB_RELAY_BACK_CREATED) ||
           crab_keep(&crab_relays, t, &r, CRAB_LB_RELAY_CREATED);
}

/* Begin a connection to the server chosen for it; NULL: no port, or no room. */
CRAB_PART struct crab_relay *crab_relay_begin(struct crab_tuple *t, struct crab_choice *c)
{
    struct crab_relay_search s;

    __builtin_memset(&s, 0, sizeof(s));
    s.back.client = t->server;
    s.back.server = c->dip;
    s.back.server_port = t->server_port;
    s.now = bpf_ktime_get_ns();
    s.start = crab_tuple_hash(t);
    bpf_loop(CRAB_RELAY_TRIES, crab_relay_try, &s, 0);
    if (!s.port) {
        return NULL;
    }
    s.back.client_port = s.port;
    crab_relay_evict(&s.back);
    return crab_relay_keep(t, &s, c) ? NULL : bpf_map_lookup_elem(&crab_relays, t);
}

/* Whether a SYN belongs to what is known: it is sent again, or it is forged, or its server's TCP must judge it (C-92).
 */
static __always_inline int crab_relay_goes_on(struct crab_relay *r, struct crab_pool *pool)
{
    if (crab_relay_over(r)) {
        return 0;
    }
    if (r->opened && bpf_ktime_get_ns() - r->last_ns < CRAB_RELAY_SILENT) {
        return 1;
    }
    struct crab_backend *b = crab_backend_at(pool, r->place);
    return b && crab_addr_same(b->addr, r->dip) && b->state != CRAB_BACKEND_DOWN;
}

static __always_inline int crab_set_port(struct __sk_buff *skb, struct crab_packet *p, const __u32 field, __be16 from,
                                         __be16 to)
{
    return bpf_l4_csum_replace(skb, p->l4 + __builtin_offsetof(struct tcphdr, check), from, to, sizeof(to)) ||
           bpf_skb_store_bytes(skb, p->l4 + field, &to, sizeof(to), 0);
}

/* Send on what has its addresses changed. */
CRAB_PART int crab_relay_send(struct __sk_buff *skb, struct crab_packet *p, __u32 reason, int forwards)
{
    int verdict = CRAB_NEXT;
    __u8 mac[ETH_ALEN];

    if (forwards && crab_stays_here(skb, p)) {
        crab_count(reason);
        return CRAB_NEXT;
    }
    if (crab_route(skb, p, &verdict, mac) != CRAB_ROUTE_REDIRECTED || (forwards && crab_age(skb))) {
        crab_count(CRAB_LB_NO_ROUTE);
        return TC_ACT_SHOT;
    }
    crab_count(reason);
    return verdict;
}

/*
 * A segment, from the VIP. What is for this host or one of its pods passes conntrack on its way, also when it was sent
 * here: it comes in by the device that it was about to leave by.
 */
CRAB_PART int crab_relay_segment(struct __sk_buff *skb, struct crab_packet *p, __u32 reason, int forwards)
{
    if (!forwards && crab_stays_here(skb, p)) {
        crab_count(reason);
        return crab_turn_round(skb);
    }
    return crab_relay_send(skb, p, reason, forwards);
}

/* Write what the server sees of the client's packet; 0: it can be sent. */
CRAB_PART int crab_relay_out(struct __sk_buff *skb, struct crab_packet *p, struct crab_relay *r)
{
    crab_addr vip = p->daddr, dip = r->dip;
    __be16 port = r->port;

    crab_relay_passes(r, p, CRAB_RELAY_OUT);
    if (crab_set_addr(skb, p, CRAB_IP_DADDR, vip, dip) || crab_set_addr(skb, p, CRAB_IP_SADDR, p->saddr, vip) ||
        crab_set_port(skb, p, __builtin_offsetof(struct tcphdr, source), p->sport, port)) {
        return -1;
    }
    p->saddr = vip;
    p->daddr = dip;
    p->sport = port;
    return 0;
}

enum crab_relay_found { CRAB_RELAY_LOST = -1, CRAB_RELAY_FOUND = 0, CRAB_RELAY_NONE = 1 };

/* Write what the client sees of a packet that comes to a port of a VIP which may be ours. */
CRAB_PART enum crab_relay_found crab_relay_in(struct __sk_buff *skb, struct crab_packet *p)
{
    struct crab_tuple back = {.client = p->daddr, .server = p->saddr, .client_port = p->dport, .server_port = p->sport};
    struct crab_relay_back *b = bpf_map_lookup_elem(&crab_relays_back, &back);

    if (!b) {
        return CRAB_RELAY_NONE;
    }
    struct crab_tuple t = {.client = b->client, .server = p->daddr, .client_port = b->port, .server_port = p->sport};
    struct crab_relay *r = bpf_map_lookup_elem(&crab_relays, &t);
    if (!r || r->port != p->dport || !crab_addr_same(r->dip, p->saddr)) {
        crab_count(CRAB_LB_RELAY_UNKNOWN);
        return CRAB_RELAY_LOST;
    }
    crab_relay_passes(r, p, CRAB_RELAY_BACK);
    if (crab_set_addr(skb, p, CRAB_IP_SADDR, p->saddr, t.server) ||
        crab_set_addr(skb, p, CRAB_IP_DADDR, t.server, t.client) ||
        crab_set_port(skb, p, __builtin_offsetof(struct tcphdr, dest), p->dport, t.client_port)) {
        crab_count(CRAB_REWRITE_FAILED);
        return CRAB_RELAY_LOST;
    }
    p->saddr = t.server;
    p->daddr = t.client;
    p->dport = t.client_port;
    return CRAB_RELAY_FOUND;
}

#endif
