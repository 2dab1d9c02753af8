// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The plainest requests and FEEDBACK of one JBSQ router, decided where they come
 * in (docs/decisions/0011). The router lends its load index; while the loan is
 * open, this program does what the router would do with a plain request that
 * finds credit and with FEEDBACK of a served pair, and writes down what it did,
 * so that the router can do the same afterwards. Whatever else comes ends the
 * loan and goes to the router's sockets. One writer at a time: everything the
 * decision reads and writes is under one lock.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include "router/delegation_layout.h"
#include "jbsq_packet.h"
#include "jbsq_rewrite.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define NEXT         -1 /* tcx: the next program of whoever else sits here, then the kernel */
#define NOTE_MASK    (BT_DELEGATION_NOTES - 1)
#define STEADY_FLAGS 0x0f /* JOIN, LEAVE, PAIR, DROPPED */

const volatile struct bt_delegation_place place;

/* The router's struct lent. */
struct state {
    struct bpf_spin_lock lock;
    __u32 spare;
    struct bt_delegation d;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct state);
} state_map SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct bt_delegation_log);
} log_map SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct jbsq_room);
} room_map SEC(".maps");

/* A packet and what is known of it; from the caller's stack. */
struct seen {
    struct jbsq_packet p;
    __u8 r2p2[JBSQ_HEADER];
    __u64 now;
    __u32 worker;
    struct jbsq_way way;
};

/* The loan ends, here with the lock held. */
static __always_inline void end_loan(struct bt_delegation_log *log, enum bt_delegation_pass why)
{
    log->why = why;
    __sync_lock_test_and_set(&log->open, 0); /* after every note: the router reads them without the lock */
}

/* The same from outside. */
static __always_inline int pass(struct state *s, struct bt_delegation_log *log, enum bt_delegation_pass why)
{
    bpf_spin_lock(&s->lock);
    if (log->open) {
        end_loan(log, why);
    }
    bpf_spin_unlock(&s->lock);
    return NEXT;
}

/* With the lock held: may a decision be written down now? */
static __always_inline int lent(struct bt_delegation_log *log, __u64 now)
{
    if (!log->open) {
        return 0;
    }
    if (now >= log->lease) {
        end_loan(log, BT_PASS_LAPSED);
        return 0;
    }
    if (log->head - log->tail >= BT_DELEGATION_NOTES) {
        end_loan(log, BT_PASS_NOTES);
        return 0;
    }
    return 1;
}

static __always_inline void written(struct bt_delegation_log *log)
{
    __sync_lock_test_and_set(&log->head, log->head + 1);
}

/*
 * Element i of an array behind the lock. For a loader without CAP_PERFMON the kernel refuses sums that could point at
 * the lock on the way, so the array's place is settled before i is added.
 */
#define AT(array, i)                                                                                                   \
    ({                                                                                                                 \
        __typeof__(&(array)[0]) first_ = (array);                                                                      \
        asm volatile("" : "+r"(first_));                                                                               \
        &first_[i];                                                                                                    \
    })

/* The least of n ranks: bt_least16. */
static __always_inline __u32 least_rank(const __u16 *rank, int n, __u32 turn)
{
    __u32 least = 0xffffffff;
#pragma unroll
    for (int i = 0; i < n; i++) {
        __u32 here = (rank[i] & 0xff00u) | ((rank[i] + turn) & 0xffu);
        least = here < least ? here : least;
    }
    return least;
}

/* The least of a group's ranks, and behind it its place, the first of equals: bt_least16_place. */
static __always_inline __u32 least_place(const __u16 *rank, __u32 turn)
{
    __u32 least = 0xffffffff;
#pragma unroll
    for (int i = 0; i < BT_DELEGATION_GROUP; i++) {
        __u32 here = ((rank[i] & 0xff00u) | ((rank[i] + turn) & 0xffu)) << 8 | i;
        least = here < least ? here : least;
    }
    return least;
}

/* The first rank of the group of worker w. */
#define GROUP_OF(d, w) AT((d)->rank, (w) & (BT_DELEGATION_WORKERS - BT_DELEGATION_GROUP))

/* What comes from memory is one number to the verifier, not one for each way to it. */
static __always_inline __u32 forget(struct bt_delegation_log *log, __u32 number)
{
    log->found = number;
    return *(volatile __u32 *)&log->found;
}

/* As bt_load_least: the worker, and behind it its level. */
static __always_inline __u32 least_loaded(const struct bt_delegation *d, struct bt_delegation_log *log, __u32 turn)
{
    if (d->span <= BT_DELEGATION_FEW) {
        __u32 least = least_rank(d->rank, BT_DELEGATION_FEW, turn);
        return (__u32)*AT(d->untie, (turn - least) & 0xff) << 8 | least >> 8;
    }
    __u32 first = (forget(log, least_place(d->group, turn >> 8)) & (BT_DELEGATION_GROUP - 1)) * BT_DELEGATION_GROUP;
    __u32 least = forget(log, least_place(GROUP_OF(d, first), turn >> 16));
    return (first + (least & (BT_DELEGATION_GROUP - 1))) << 8 | least >> 16;
}

/* The level of a group is that of its least worker: bt_load_regroup. */
static __always_inline void regroup(struct bt_delegation *d, __u32 w)
{
    const __u16 *rank = GROUP_OF(d, w);
    __u16 *group = AT(d->group, w / BT_DELEGATION_GROUP & (BT_DELEGATION_GROUP - 1));
    __u32 least = 0xffff;
#pragma unroll
    for (int i = 0; i < BT_DELEGATION_GROUP; i++) {
        least = rank[i] < least ? rank[i] : least;
    }
    *group = (__u16)((least & 0xff00u) | (*group & 0xffu));
}

static __always_inline void set_level(struct bt_delegation *d, __u32 w, __u64 level)
{
    __u32 to = level < AT(d->worker, w)->limit ? (__u32)level : BT_DELEGATION_LEVELS;
    __u16 *rank = AT(d->rank, w);
    *rank = (__u16)(to << 8 | (*rank & 0xffu));
    if (d->span > BT_DELEGATION_FEW) {
        regroup(d, w);
    }
}

/* A worker for the request; with the lock held. False: the packet goes up. */
static __always_inline int choose(struct state *s, struct bt_delegation_log *log, struct seen *seen)
{
    struct bt_delegation *d = &s->d;
    if (!lent(log, seen->now)) {
        return 0;
    }
    seen->way.key = *AT(d->key, d->signer & (BT_DELEGATION_KEYS - 1));
    if (seen->p.l4 - sizeof(struct udphdr) + jbsq_more(&seen->way) > d->max_payload) {
        end_loan(log, BT_PASS_ROOM);
        return 0;
    }
    __u32 turn = d->turn + 0xd1ab9f; /* BT_LOAD_TURN */
    __u32 least = least_loaded(d, log, turn), level = least & 0xff;
    if (level >= BT_DELEGATION_LEVELS) {
        end_loan(log, BT_PASS_FULL);
        return 0;
    }
    __u32 w = least >> 8 & (BT_DELEGATION_WORKERS - 1);
    struct bt_delegation_worker *worker = AT(d->worker, w);
    d->turn = turn;
    worker->given++;
    set_level(d, w, level + 1);
    seen->worker = w;
    seen->way.to = worker->ip;
    seen->way.to_port = worker->port;
    log->counters.requests++;
    return 1;
}

static __always_inline void note_request(struct bt_delegation_log *log, const struct seen *seen)
{
    struct bt_delegation_note *n = &log->note[log->head & NOTE_MASK];
    n->at = seen->now;
    n->ip = seen->p.ip.saddr;
    n->port = seen->p.udp.source;
    n->req_id = *(const __be16 *)(seen->r2p2 + 4);
    n->worker = (__u8)seen->worker;
    n->kind = BT_NOTE_REQUEST;
    written(log);
}

/* What the request port's socket path would judge (M-23), or could not answer. */
static __always_inline int odd_source(const struct seen *seen)
{
    __u32 ip = bpf_ntohl(seen->p.ip.saddr);
    int local = seen->p.ip.saddr == place.ip;
    if (place.out) {
        return local || ip >> 24 == 127 || ip == 0 || ip >= 0xe0000000u || seen->p.udp.source == 0;
    }
    return ip == 0 || ip >= 0xe0000000u || seen->p.udp.source == 0 ||
           (local && (seen->p.udp.source == place.request_port || seen->p.udp.source == place.feedback_port));
}

static __always_inline int plain(const __u8 *r2p2, __u8 type, __u8 size)
{
    return r2p2[0] == 0xcc && r2p2[1] == size && r2p2[2] == type << 4 && (r2p2[3] & 0xdf) == 0xc0 && r2p2[6] == 0 &&
           r2p2[7] == 1;
}

static __always_inline int send_on(struct __sk_buff *skb, struct bt_delegation_log *log, const struct seen *seen,
                                   struct jbsq_room *room)
{
    if (!jbsq_rewrite(skb, &seen->p, seen->r2p2, &seen->way, room)) {
        __sync_fetch_and_add(&log->counters.unsent, 1);
        return TC_ACT_SHOT;
    }
    return place.out ? (int)bpf_redirect_neigh(place.out, 0, 0, 0) : NEXT;
}

static __always_inline int take_request(struct __sk_buff *skb, struct state *s, struct bt_delegation_log *log,
                                        struct seen *seen, struct jbsq_room *room)
{
    if (!plain(seen->r2p2, 0, JBSQ_HEADER)) {
        return pass(s, log, BT_PASS_FORM);
    }
    if (odd_source(seen)) {
        return pass(s, log, BT_PASS_SOURCE);
    }
    bpf_spin_lock(&s->lock);
    int chosen = choose(s, log, seen);
    if (chosen) {
        note_request(log, seen);
    }
    bpf_spin_unlock(&s->lock);
    return chosen ? send_on(skb, log, seen, room) : NEXT;
}

/* A FEEDBACK payload of version 1 as it stands in the packet. */
struct report {
    __be16 req_id, port;
    __be32 ip;
    __u64 steady;
    __be64 received, served;
};

/* What stands in front of it where the service has a key. */
struct tag {
    __u8 kind, size, key_id, flags;
    __u64 tag;
} __attribute__((packed));

/* FEEDBACK as read, and what was found out about it before the decision. */
struct feedback {
    struct report report;
    struct tag tag;
    int tagged;
    __u32 loan; /* by whose keys the tag holds */
};

/* The slot that has this address, or BT_DELEGATION_WORKERS. */
static __always_inline __u32 find(const struct bt_delegation *d, struct bt_delegation_log *log, __be32 ip, __be16 port)
{
    const __u64 who = bt_delegation_who(ip, port);
    log->found = BT_DELEGATION_WORKERS;
#pragma unroll
    for (__u32 w = 0; w < BT_DELEGATION_FEW; w++) {
        if (d->who[w] == who) {
            log->found = w;
        }
    }
    if (d->span > BT_DELEGATION_FEW) {
#pragma unroll
        for (__u32 w = BT_DELEGATION_FEW; w < BT_DELEGATION_WORKERS; w++) {
            if (d->who[w] == who) {
                log->found = w;
            }
        }
    }
    return *(volatile __u32 *)&log->found;
}

/* bt_credit_in_order, apart from its look at the time: the router looks when it does the same again. */
static __always_inline int in_order(const struct bt_delegation_worker *worker, __u64 received, __u64 served)
{
    return (__s64)(received - served) >= 0 && (__s64)(received - worker->received) >= 0 &&
           (__s64)(worker->served - served) < 0 && (__s64)(worker->given - received) >= 0;
}

static __always_inline void note_feedback(struct bt_delegation_log *log, const struct seen *seen,
                                          const struct report *report, __u64 received, __u64 served)
{
    struct bt_delegation_note *n = &log->note[log->head & NOTE_MASK];
    n->at = seen->now;
    n->received = received;
    n->served = served;
    n->ip = report->ip;
    n->port = report->port;
    n->req_id = report->req_id;
    n->worker = (__u8)seen->worker;
    n->kind = BT_NOTE_FEEDBACK;
    written(log);
}

/* Version, flags, n and incarnation as a worker's steady word has them: bit 7 of the flags says that there is a tag. */
static __always_inline __u64 steady_word(const struct feedback *fb)
{
    const __u64 no_matter = bpf_cpu_to_be64((__u64)(__u8)~STEADY_FLAGS << 48);
    return (fb->report.steady & ~no_matter) | (fb->tagged ? bpf_cpu_to_be64((__u64)0x80 << 48) : 0);
}

/* The worker that says what it always says; with the lock held. BT_DELEGATION_WORKERS: the packet goes up. */
static __always_inline __u32 speaker(const struct bt_delegation *d, struct bt_delegation_log *log,
                                     const struct seen *seen, const struct feedback *fb)
{
    if (fb->tagged && fb->loan != d->loan) {
        end_loan(log, BT_PASS_TAG);
        return BT_DELEGATION_WORKERS;
    }
    __u32 w = find(d, log, seen->p.ip.saddr, seen->p.udp.source);
    if (w >= BT_DELEGATION_WORKERS || AT(d->worker, w)->limit == 0 || steady_word(fb) != AT(d->worker, w)->steady) {
        end_loan(log, BT_PASS_WORKER);
        return BT_DELEGATION_WORKERS;
    }
    return w;
}

/* With the lock held. False: the packet goes up. */
static __always_inline int settle(struct state *s, struct bt_delegation_log *log, struct seen *seen,
                                  const struct feedback *fb)
{
    struct bt_delegation *d = &s->d;
    if (!lent(log, seen->now)) {
        return 0;
    }
    __u32 w = speaker(d, log, seen, fb);
    if (w >= BT_DELEGATION_WORKERS) {
        return 0;
    }
    struct bt_delegation_worker *worker = AT(d->worker, w);
    __u64 received = bpf_be64_to_cpu(fb->report.received), served = bpf_be64_to_cpu(fb->report.served);
    if (!in_order(worker, received, served)) {
        end_loan(log, BT_PASS_ORDER);
        return 0;
    }
    asm volatile("" : "+r"(w)); /* anew for the stores: Linux 6.12 does not take one pointer for both */
    worker = AT(d->worker, w);
    worker->received = received;
    worker->served = served;
    set_level(d, w, worker->given - served);
    seen->worker = w;
    log->counters.feedback++;
    note_feedback(log, seen, &fb->report, received, served);
    return 1;
}

/* Everything under the tag of FEEDBACK (bt_tag_short). */
struct under {
    __u8 r2p2[JBSQ_HEADER];
    struct tag tag;
    struct report report;
    struct jbsq_ends ends;
} __attribute__((packed));

/* The key the tag names; which loan it is of stays in fb. */
static __always_inline void find_key(struct state *s, struct feedback *fb, struct bt_delegation_key *key)
{
    bpf_spin_lock(&s->lock);
    fb->loan = s->d.loan;
    for (int i = 0; i < BT_DELEGATION_KEYS; i++) {
        if (s->d.key[i].id == fb->tag.key_id) {
            *key = s->d.key[i];
        }
    }
    bpf_spin_unlock(&s->lock);
}

static __always_inline int tag_holds(struct state *s, const struct seen *seen, struct feedback *fb)
{
    struct bt_delegation_key key = {};
    struct under under;
    __u64 word[sizeof(under) / 8];
    _Static_assert(sizeof(under) == 88 && sizeof(word) == 88, "whole words");
    find_key(s, fb, &key);
    if (key.id == 0 || fb->tag.kind != 2 || fb->tag.size != JBSQ_TAG) {
        return 0;
    }
    __builtin_memcpy(under.r2p2, seen->r2p2, sizeof(under.r2p2));
    under.tag = fb->tag;
    under.tag.tag = 0;
    under.report = fb->report;
    jbsq_fill_ends(&under.ends, seen->p.ip.saddr, seen->p.udp.source, place.ip, place.feedback_port);
    __builtin_memcpy(word, &under, sizeof(word));
    return jbsq_siphash(word, JBSQ_SIP_WORDS_MOST, &key) == fb->tag.tag;
}

/* The two forms of a report of version 1. */
static __always_inline int read_feedback(struct __sk_buff *skb, const struct seen *seen, struct feedback *fb)
{
    const __u32 at = JBSQ_R2P2 + JBSQ_HEADER, payload = seen->p.l4 - sizeof(struct udphdr);
    if (payload == JBSQ_HEADER + sizeof(fb->report)) {
        return plain(seen->r2p2, 2, JBSQ_HEADER) && !bpf_skb_load_bytes(skb, at, &fb->report, sizeof(fb->report));
    }
    fb->tagged = 1;
    return payload == JBSQ_HEADER + JBSQ_TAG + sizeof(fb->report) && plain(seen->r2p2, 2, JBSQ_HEADER + JBSQ_TAG) &&
           !bpf_skb_load_bytes(skb, at, &fb->tag, sizeof(fb->tag)) &&
           !bpf_skb_load_bytes(skb, at + JBSQ_TAG, &fb->report, sizeof(fb->report));
}

static __always_inline int take_feedback(struct __sk_buff *skb, struct state *s, struct bt_delegation_log *log,
                                         struct seen *seen)
{
    struct feedback fb = {};
    if (!read_feedback(skb, seen, &fb)) {
        return pass(s, log, BT_PASS_FORM);
    }
    if (fb.tagged && !tag_holds(s, seen, &fb)) {
        return pass(s, log, BT_PASS_TAG);
    }
    bpf_spin_lock(&s->lock);
    int taken = settle(s, log, seen, &fb);
    bpf_spin_unlock(&s->lock);
    return taken ? TC_ACT_SHOT : NEXT;
}

SEC("tc")
int jbsq_router(struct __sk_buff *skb)
{
    const __u32 zero = 0;
    struct seen seen = {};
    if (!jbsq_parse(skb, &seen.p) || seen.p.ip.daddr != place.ip ||
        (seen.p.udp.dest != place.request_port && seen.p.udp.dest != place.feedback_port)) {
        return NEXT;
    }
    struct state *s = bpf_map_lookup_elem(&state_map, &zero);
    struct bt_delegation_log *log = bpf_map_lookup_elem(&log_map, &zero);
    struct jbsq_room *room = bpf_map_lookup_elem(&room_map, &zero);
    if (!s || !log || !room || !log->open) {
        return NEXT;
    }
    if (skb->gso_size) { /* its headers speak of all datagrams at once */
        return pass(s, log, BT_PASS_BATCH);
    }
    if (!jbsq_intact(skb, &seen.p, room)) {
        __sync_fetch_and_add(&log->counters.damaged, 1);
        return NEXT;
    }
    if (seen.p.l4 < sizeof(struct udphdr) + JBSQ_HEADER ||
        bpf_skb_load_bytes(skb, JBSQ_R2P2, seen.r2p2, sizeof(seen.r2p2))) {
        return pass(s, log, BT_PASS_FORM);
    }
    seen.now = bpf_ktime_get_ns();
    seen.way.from = place.ip;
    seen.way.from_port = place.request_port;
    return seen.p.udp.dest == place.request_port ? take_request(skb, s, log, &seen, room)
                                                 : take_feedback(skb, s, log, &seen);
}
