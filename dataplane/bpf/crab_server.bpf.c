// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The server's host: SYN-ACKs echo the redirect of their SYN (C-30, C-73), and
 * connections of clients that know nothing of CRAB are answered from the VIP (C-42).
 * No SYN changes what is known of a connection: the server's answer to it does (C-92).
 *
 * crab_server_in sees what servers receive, crab_server_out what they send; on
 * the uplink that is tc ingress and egress. A pod's veth has the echo only, for
 * clients on the same node; replies change their source on the uplink, behind conntrack.
 */
#include "crab_skb.h"
#include "crab_kept.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define KIND_TIMESTAMPS 8

/* How long a handshake may take: six SYN-ACKs, as C-73 has it. */
#define CRAB_OPENING_LIFE_NS (65LL * 1000 * 1000 * 1000)

/* What a SYN says is kept apart from what is known of connections: whoever can send SYNs fills this map only. */
CRAB_MAP(BPF_MAP_TYPE_LRU_HASH, crab_opening, struct crab_tuple, struct crab_opening, 65536);
CRAB_MAP(BPF_MAP_TYPE_LRU_HASH, crab_dsr, struct crab_tuple, struct crab_echo, 65536);
/*
 * SYNs that come while the server's answer to another one is out. Of use until the server answers, which is at once;
 * one that is never answered lies here until it is pushed out, or the agent removes it.
 */
CRAB_MAP(BPF_MAP_TYPE_LRU_HASH, crab_later, struct crab_tuple, struct crab_opening, 4096);

/* VIPs and probers' addresses a server of this host may echo (C-34). */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, crab_addr);
    __type(value, __u32);
    __uint(max_entries, 4096);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
} crab_allowed SEC(".maps");

#ifdef CRAB_SIX
/* The same, by the name they have in the mark of a fall-back. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, __be32);
    __type(value, crab_addr);
    __uint(max_entries, 4096);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
} crab_digests6 SEC(".maps");
#endif

/* The address an option names, if it may be named here (C-34). */
static __always_inline int allowed(struct crab_options *o, crab_addr *addr)
{
#ifdef CRAB_SIX
    if (o->form == CRAB_FORM_FALLBACK) {
        crab_addr *named = bpf_map_lookup_elem(&crab_digests6, &o->addr);
        if (named) {
            *addr = *named;
        }
        return named != NULL;
    }
#endif
    *addr = crab_option_addr(o);
    return bpf_map_lookup_elem(&crab_allowed, addr) != NULL;
}

/* From now on replies are looked at. */
static __always_inline void fallback_is_used(__u64 now)
{
    __u32 zero = 0;
    struct crab_meta *meta = bpf_map_lookup_elem(&crab_meta, &zero);

    if (meta) {
        meta->dsr_seen_ns = now;
    }
    crab_count(CRAB_SERVER_DSR_SEEN);
}

/* When the last SYN of the fall-back path came; 0: never. */
static __always_inline __u64 fallback_seen(void)
{
    __u32 zero = 0;
    struct crab_meta *meta = bpf_map_lookup_elem(&crab_meta, &zero);
    return meta ? meta->dsr_seen_ns : 0;
}

/* The same SYN, this time without redirect (C-31, C-105). Of another one nothing is known yet: it may be forged. */
static __always_inline void forget(struct crab_tuple *t, __u32 iss)
{
    struct crab_opening *old = bpf_map_lookup_elem(&crab_opening, t);

    if (!old) {
        return;
    }
    if (old->iss == iss) {
        crab_drop(&crab_opening, t, CRAB_SERVER_OPENING_REMOVED);
        return;
    }
    struct crab_opening *later = bpf_map_lookup_elem(&crab_later, t);
    if (later && later->iss == iss) {
        crab_drop(&crab_later, t, CRAB_SERVER_LATER_REMOVED);
    }
}

/*
 * A SYN says what its sender wants, and anybody may send one for a connection that lives, or whose handshake goes on.
 * So it is kept beside what is known of that one, until the server's TCP has answered this very SYN (answer_goes).
 */
CRAB_PART void syn_comes(struct crab_tuple *t, struct crab_opening *fresh)
{
    struct crab_opening *old = bpf_map_lookup_elem(&crab_opening, t);

    if (old && old->answered && old->iss != fresh->iss) {
        crab_keep(&crab_later, t, fresh, CRAB_SERVER_LATER_CREATED);
        return;
    }
    if (old && old->iss == fresh->iss && old->fallback == fresh->fallback) { /* sent again */
        fresh->answered = old->answered;
        fresh->isn = old->isn;
    }
    crab_keep(&crab_opening, t, fresh, CRAB_SERVER_OPENING_CREATED);
}

static __always_inline int server_syn(struct __sk_buff *skb, struct crab_packet *p, struct crab_tuple *t)
{
    struct crab_options o;
    struct crab_opening e = {.last_ns = bpf_ktime_get_ns(), .iss = p->seq};

    if (crab_read_options(skb, p, &o)) {
        return CRAB_NEXT;
    }
    if (o.form != CRAB_FORM_REDIRECT && o.form != CRAB_FORM_FALLBACK) {
        forget(t, p->seq);
        return CRAB_NEXT;
    }
    if (!allowed(&o, &e.vip)) {
        forget(t, p->seq);
        crab_count(CRAB_SERVER_SYN_NOT_ALLOWED);
        return CRAB_NEXT;
    }
    e.fallback = o.form == CRAB_FORM_FALLBACK;
    syn_comes(t, &e);
    if (e.fallback) {
        fallback_is_used(e.last_ns);
    } else {
        crab_count(CRAB_SERVER_SYN_SEEN);
    }
    return CRAB_NEXT;
}

/* The handshake on the fall-back path is finished: from now on it is a connection, which no SYN pushes out. */
CRAB_PART void opened(struct crab_tuple *t, struct crab_opening *o)
{
    struct crab_echo e = {.last_ns = bpf_ktime_get_ns(), .vip = o->vip, .iss = o->iss};

    crab_keep(&crab_dsr, t, &e, CRAB_SERVER_DSR_CREATED);
    crab_drop(&crab_opening, t, CRAB_SERVER_OPENING_REMOVED);
}

/* The client's first ACK, or one of a later handshake with nothing to remove (C-73). */
static __always_inline void first_ack(struct crab_packet *p, struct crab_tuple *t)
{
    struct crab_opening *o = bpf_map_lookup_elem(&crab_opening, t);

    if (!o || p->seq != o->iss + 1) {
        return;
    }
    if (!o->fallback) {
        if (!crab_drop(&crab_opening, t, CRAB_SERVER_OPENING_REMOVED)) {
            crab_count(CRAB_SERVER_RULE_DONE);
        }
    } else if (o->answered && p->ack == o->isn + 1) { /* it has seen our SYN-ACK: its address is not forged */
        opened(t, o);
    }
}

/* The client has said all it has to say. With the server's own FIN that is the end of its connection (C-72). */
static __always_inline void client_ends(struct crab_tuple *t)
{
    struct crab_echo *e = fallback_seen() ? bpf_map_lookup_elem(&crab_dsr, t) : NULL;

    if (e) {
        __sync_fetch_and_or(&e->last_ns, CRAB_ECHO_CLIENT_FIN);
    }
}

static __always_inline int server_in(struct __sk_buff *skb, enum crab_six_entry six)
{
    struct crab_packet p;

    if (crab_is_data(skb) || crab_parse(skb, &p, six) != CRAB_TCP) {
        return CRAB_NEXT;
    }
    struct crab_tuple t = {.client = p.saddr, .server = p.daddr, .client_port = p.sport, .server_port = p.dport};
    if ((p.flags & CRAB_STATE) == CRAB_SYN) {
        return server_syn(skb, &p, &t);
    }
    /* Window updates pass without a look-up, as data did: only a bare ACK ends a handshake. */
    if (p.flags == CRAB_ACK && p.length == p.l4 - ETH_HLEN + p.doff) {
        first_ack(&p, &t);
    }
    if (p.flags & CRAB_FIN) {
        client_ends(&t);
    }
    return CRAB_NEXT;
}

SEC("tc")
int CRAB_NAME(crab_server_in)(struct __sk_buff *skb)
{
    return server_in(skb, CRAB_SIX_SERVER_IN);
}

#ifdef CRAB_SIX
/* 20 bytes are more than timestamps leave: this client's third SYN goes without placeholder (C-105). */
static __always_inline int echo_for_timestamps(struct __sk_buff *skb, struct crab_packet *p, struct crab_options *o,
                                               __u8 *room)
{
    (void)skb, (void)p, (void)o, (void)room;
    return -1;
}
#else
/* Remember in at and size where the timestamps stand; a loop the verifier looks at once. */
static long timestamps_turn(__u32 turn, struct crab_options *o)
{
    __u32 at = o->cursor;

    (void)turn;
    if (at + 10 > o->len || at >= CRAB_OPTIONS_MAX) {
        return 1;
    }
    __u8 kind = o->bytes[at & 63], size = o->bytes[(at + 1) & 63];
    if (kind == KIND_TIMESTAMPS && size == 10) {
        o->at = at;
        o->size = size;
        return 1;
    }
    if (kind == 0 || (kind != 1 && size < 2)) {
        return 1;
    }
    o->cursor = at + (kind == 1 ? 1 : size);
    return 0;
}

/* No 8 bytes are free: the echo and two NOPs take the place of the timestamps (C-33). */
static __always_inline int echo_for_timestamps(struct __sk_buff *skb, struct crab_packet *p, struct crab_options *o,
                                               __u8 *room)
{
    o->cursor = 0;
    o->size = 0;
    bpf_loop(CRAB_OPTIONS_MAX, timestamps_turn, o, 0);
    return o->size == 10 ? crab_replace_option(skb, p, o, room) : -1;
}
#endif

static __always_inline int add_echo(struct __sk_buff *skb, struct crab_packet *p, crab_addr vip)
{
    struct crab_options o;
    __u8 room[CRAB_ROOM_STORAGE];

    if (crab_read_options(skb, p, &o) || o.form == CRAB_FORM_REDIRECT) {
        return CRAB_NEXT; /* written already, on the pod's veth */
    }
    crab_room(room, CRAB_FORM_REDIRECT, vip);
    int inserted = crab_insert_option(skb, p, room, CRAB_OPTION_ROOM);
    if (inserted == CRAB_NO_SPACE && !echo_for_timestamps(skb, p, &o, room)) {
        crab_count(CRAB_SERVER_ECHO_NO_TIMESTAMPS);
        inserted = CRAB_INSERTED;
    }
    if (inserted != CRAB_INSERTED) { /* without echo the client would refuse it anyway */
        crab_count(CRAB_SERVER_ECHO_FAILED);
        return TC_ACT_SHOT;
    }
    crab_count(CRAB_SERVER_ECHO);
    return CRAB_NEXT;
}

/* A reply on the fall-back path: it comes from the VIP. */
static __always_inline int from_vip(struct __sk_buff *skb, struct crab_packet *p, crab_addr vip)
{
    if (crab_set_addr(skb, p, CRAB_IP_SADDR, p->saddr, vip)) {
        return crab_write_failed();
    }
    crab_count(CRAB_SERVER_DSR_REPLY);
    return CRAB_NEXT;
}

/* The first reply after a handshake whose last ACK was lost, or that had data in its SYN; or the refusal of a SYN. */
static __always_inline int early_reply(struct __sk_buff *skb, struct crab_packet *p, struct crab_tuple *t)
{
    struct crab_opening *o = bpf_map_lookup_elem(&crab_opening, t);

    if (!o || !o->fallback) {
        return CRAB_NEXT;
    }
    crab_addr vip = o->vip;
    if (p->flags & CRAB_RST) {
        return p->flags & CRAB_ACK && p->ack == o->iss + 1 ? from_vip(skb, p, vip) : CRAB_NEXT;
    }
    if (!o->answered) {
        return CRAB_NEXT;
    }
    /* A bare ACK may be a challenge, which anybody can draw before there is a connection. */
    if (p->ack != o->iss + 1 || p->flags & CRAB_FIN || p->l4 - ETH_HLEN + p->doff < p->length) {
        opened(t, o);
    }
    return from_vip(skb, p, vip);
}

/* Whether no handshake of then goes on any more; the coarse clock may be behind then. */
static __always_inline int long_ago(__u64 then)
{
    return (__s64)(bpf_ktime_get_coarse_ns() - then) > CRAB_OPENING_LIFE_NS;
}

/* Who has ended a connection, now that its server sends this. What follows a RST of the server's takes that back. */
static __always_inline __u64 ends_of(__u64 last_ns, __u8 flags)
{
    return (last_ns & (CRAB_ECHO_SERVER_FIN | CRAB_ECHO_CLIENT_FIN)) | (flags & CRAB_FIN ? CRAB_ECHO_SERVER_FIN : 0) |
           (flags & CRAB_RST ? CRAB_ECHO_RESET : 0);
}

static __always_inline int fallback_reply(struct __sk_buff *skb, struct crab_packet *p, struct crab_tuple *t)
{
    __u64 seen = fallback_seen();

    if (!seen) {
        return CRAB_NEXT;
    }
    struct crab_echo *e = bpf_map_lookup_elem(&crab_dsr, t);
    if (!e) {
        return long_ago(seen) ? CRAB_NEXT : early_reply(skb, p, t);
    }
    e->last_ns = bpf_ktime_get_ns() | ends_of(e->last_ns, p->flags);
    return from_vip(skb, p, e->vip);
}

/* Whether the server answers the SYN that came later: then that handshake takes the place of the former one. */
CRAB_PART int begins_later(struct crab_tuple *t, struct crab_opening *o, __u32 ack)
{
    struct crab_opening *later = bpf_map_lookup_elem(&crab_later, t);

    if (!later || later->iss + 1 != ack) {
        return 0;
    }
    o->last_ns = later->last_ns;
    o->vip = later->vip;
    o->iss = later->iss;
    o->fallback = later->fallback;
    crab_drop(&crab_later, t, CRAB_SERVER_LATER_REMOVED);
    return 1;
}

/*
 * A SYN-ACK: the server's TCP begins anew, and a former connection is over. Which SYN it answers is told by its ack; a
 * live connection never sends one.
 */
static __always_inline int answer_goes(struct __sk_buff *skb, struct crab_packet *p, struct crab_tuple *t, int uplink)
{
    struct crab_opening *o = bpf_map_lookup_elem(&crab_opening, t);
    int known = o && (o->iss + 1 == p->ack || begins_later(t, o, p->ack));

    if (uplink && fallback_seen()) {
        struct crab_echo *e = bpf_map_lookup_elem(&crab_dsr, t);
        if (e && e->iss + 1 == p->ack) { /* sent again, beside the client's ACK */
            return from_vip(skb, p, e->vip);
        }
        if (e) {
            crab_drop(&crab_dsr, t, CRAB_SERVER_DSR_REMOVED);
        }
    }
    if (o && !known) {
        o->answered = 0; /* that handshake came to nothing: what begins here is another connection */
    }
    if (!known || (o->fallback && !uplink)) {
        return CRAB_NEXT;
    }
    o->answered = 1;
    if (!o->fallback) {
        return add_echo(skb, p, o->vip);
    }
    o->last_ns = bpf_ktime_get_ns();
    o->isn = p->seq;
    return from_vip(skb, p, o->vip);
}

static __always_inline int server_out(struct __sk_buff *skb, int uplink, enum crab_six_entry six)
{
    struct crab_packet p;

    if (crab_is_data(skb) && !(uplink && fallback_seen())) {
        return CRAB_NEXT;
    }
    if (crab_parse(skb, &p, six) != CRAB_TCP) {
        return CRAB_NEXT;
    }
    struct crab_tuple t = {.client = p.daddr, .server = p.saddr, .client_port = p.dport, .server_port = p.sport};
    if ((p.flags & CRAB_STATE) == (CRAB_SYN | CRAB_ACK)) {
        return answer_goes(skb, &p, &t, uplink);
    }
    return uplink ? fallback_reply(skb, &p, &t) : CRAB_NEXT;
}

SEC("tc")
int CRAB_NAME(crab_server_out)(struct __sk_buff *skb)
{
    return server_out(skb, 1, CRAB_SIX_SERVER_OUT);
}

SEC("tc")
int CRAB_NAME(crab_server_out_pod)(struct __sk_buff *skb)
{
    return server_out(skb, 0, CRAB_SIX_SERVER_OUT_POD);
}
