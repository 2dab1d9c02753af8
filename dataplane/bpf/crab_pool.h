/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A balancer's decision: which server gets this SYN (C-25, C-60..C-63), or this packet by hash (C-41). */
#ifndef CRAB_POOL_H
#define CRAB_POOL_H

#include "crab_maps.h"

CRAB_MAP(BPF_MAP_TYPE_LRU_HASH, crab_syns, struct crab_syn_key, struct crab_syn, 65536);
CRAB_MAP(BPF_MAP_TYPE_ARRAY, crab_loads, __u32, struct crab_load, CRAB_MAX_LOADS);
CRAB_MAP(BPF_MAP_TYPE_ARRAY, crab_rr, __u32, __u64, CRAB_MAX_VIPS);
CRAB_MAP(BPF_MAP_TYPE_PERCPU_ARRAY, crab_rr_cpu, __u32, __u64, CRAB_MAX_VIPS);

struct crab_pool_map {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, sizeof(struct crab_pool)); /* its Go form: programs/pool.go */
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, CRAB_MAX_VIPS);
    __type(key, __u32);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
    __array(values, struct crab_pool_map);
} crab_pools SEC(".maps");

#define CRAB_SYN_LIFE_NS  3000000000ULL /* C-25 */
#define CRAB_LEAST_LOOKED 64

struct crab_choice {
    crab_addr dip;
    __u32 place;
    __u8 state;
    __u8 repeated;  /* the same SYN was sent there before */
    __u8 known;     /* the choice is an old one */
    __u8 vip_flags; /* the caller's, who reads them */
};

/* The same on every balancer of a VIP, so that a change of its owner breaks no hashed connection. */
static __always_inline __u32 crab_tuple_hash(struct crab_tuple *t)
{
    __u32 h = crab_mix_addr(0x9e3779b9, t->client);
    h = crab_mix_addr(h, t->server);
    return crab_mix(h, (__u32)t->client_port << 16 | t->server_port);
}

static __always_inline struct crab_pool *crab_pool_of(struct crab_vip *vip)
{
    __u32 id = vip->id, zero = 0;
    void *inner = bpf_map_lookup_elem(&crab_pools, &id);
    return inner ? bpf_map_lookup_elem(inner, &zero) : NULL;
}

static __always_inline struct crab_backend *crab_backend_at(struct crab_pool *pool, __u32 place)
{
    if (place >= CRAB_MAX_BACKENDS) {
        return NULL;
    }
    CRAB_OPAQUE(place);
    return &pool->backend[place & (CRAB_MAX_BACKENDS - 1)];
}

/* The n-th of the servers that take redirects. */
static __always_inline __u32 crab_scheduled(struct crab_pool *pool, __u64 n)
{
    __u32 slots = pool->scheduled, i;

    if (slots == 0 || slots > CRAB_SCHEDULE_SLOTS) {
        return CRAB_NO_BACKEND;
    }
    i = (__u32)(n % slots);
    CRAB_OPAQUE(i);
    return pool->schedule[i & (CRAB_SCHEDULE_SLOTS - 1)];
}

static __always_inline __u32 crab_next_in_turn(struct crab_pool *pool, struct crab_vip *vip)
{
    __u32 id = vip->id;
    __u64 *turn;

    if (vip->policy == CRAB_POLICY_ROUND_ROBIN_PER_CPU) {
        turn = bpf_map_lookup_elem(&crab_rr_cpu, &id);
        return turn ? crab_scheduled(pool, (*turn)++) : CRAB_NO_BACKEND;
    }
    turn = bpf_map_lookup_elem(&crab_rr, &id);
    return turn ? crab_scheduled(pool, __sync_fetch_and_add(turn, 1)) : CRAB_NO_BACKEND;
}

static __always_inline struct crab_load *crab_load_of(struct crab_pool *pool, __u32 place)
{
    struct crab_backend *b = crab_backend_at(pool, place);
    __u32 load = b ? b->load : CRAB_MAX_LOADS;
    return bpf_map_lookup_elem(&crab_loads, &load);
}

/* What a report counts is of one part of the server's weight already; the SYNs sent since are of the whole server. */
static __always_inline __u64 crab_busy(struct crab_load *load, __u32 weight)
{
    return (__u64)load->open * weight + load->assigned;
}

static __always_inline __u32 crab_weight(struct crab_pool *pool, __u32 place)
{
    struct crab_backend *b = crab_backend_at(pool, place);
    return b && b->weight ? b->weight : 1;
}

static __always_inline int crab_fresh(struct crab_load *load, struct crab_vip *vip, __u64 now)
{
    return load && load->reported_ns && now - load->reported_ns <= vip->report_life_ns;
}

/* The less loaded of two places for its weight; an old report makes the first, random one win (C-62). */
static __always_inline __u32 crab_lighter(struct crab_pool *pool, struct crab_vip *vip, __u32 one, __u32 two, __u64 now)
{
    struct crab_load *a = crab_load_of(pool, one), *b = crab_load_of(pool, two);

    if (!crab_fresh(a, vip, now) || !crab_fresh(b, vip, now)) {
        crab_count(CRAB_LB_STALE_REPORT);
        return one;
    }
    __u32 of_one = crab_weight(pool, one), of_two = crab_weight(pool, two);
    return crab_busy(b, of_two) * of_one < crab_busy(a, of_one) * of_two ? two : one;
}

struct crab_search {
    struct crab_pool *pool;
    struct crab_vip *vip;
    __u64 now;
    __u32 start, best;
};

/* Compare the best so far with one more; a loop the verifier looks at once. */
static long crab_search_step(__u32 turn, struct crab_search *s)
{
    struct crab_pool *pool = s->pool;
    __u64 n = pool->scheduled <= CRAB_LEAST_LOOKED ? (__u64)s->start + turn : bpf_get_prandom_u32();
    __u32 other = crab_scheduled(pool, n);

    if (turn == 0) {
        s->best = other;
    } else if (other != s->best) {
        s->best = crab_lighter(pool, s->vip, s->best, other, s->now);
    }
    return 0;
}

/* All servers from a random one on, or 64 random ones of a larger pool. */
static __always_inline __u32 crab_least(struct crab_pool *pool, struct crab_vip *vip, __u64 now)
{
    struct crab_search s = {
        .pool = pool, .vip = vip, .now = now, .start = bpf_get_prandom_u32(), .best = CRAB_NO_BACKEND};

    bpf_loop(pool->scheduled < CRAB_LEAST_LOOKED ? pool->scheduled : CRAB_LEAST_LOOKED, crab_search_step, &s, 0);
    return s.best;
}

static __always_inline __u32 crab_by_policy(struct crab_pool *pool, struct crab_vip *vip, struct crab_tuple *t,
                                            __u64 now)
{
    switch (vip->policy) {
    case CRAB_POLICY_RANDOM:
        return crab_scheduled(pool, bpf_get_prandom_u32());
    case CRAB_POLICY_HASH:
        return crab_scheduled(pool, crab_tuple_hash(t));
    case CRAB_POLICY_POWER_OF_TWO:
        return crab_lighter(pool, vip, crab_scheduled(pool, bpf_get_prandom_u32()),
                            crab_scheduled(pool, bpf_get_prandom_u32()), now);
    case CRAB_POLICY_LEAST:
        return crab_least(pool, vip, now);
    default:
        return crab_next_in_turn(pool, vip);
    }
}

/* Where this very SYN went before, if that server still takes connections (C-25). */
static __always_inline int crab_seen_before(struct crab_pool *pool, struct crab_syn_key *key, __u64 now,
                                            struct crab_choice *c)
{
    struct crab_syn *seen = bpf_map_lookup_elem(&crab_syns, key);
    struct crab_backend *b;

    if (!seen || now - seen->seen_ns > CRAB_SYN_LIFE_NS) {
        return 0;
    }
    b = crab_backend_at(pool, seen->place);
    if (!b || !crab_addr_same(b->addr, seen->dip) || b->state != CRAB_BACKEND_UP_CRAB) {
        return 0;
    }
    c->dip = seen->dip;
    c->place = seen->place;
    c->state = b->state;
    c->repeated = !seen->undelivered;
    c->known = 1;
    return 1;
}

CRAB_PART void crab_remember(struct crab_pool *pool, struct crab_syn_key *key, struct crab_choice *c, __u64 now)
{
    struct crab_syn syn = {.seen_ns = now, .dip = c->dip, .place = c->place};
    struct crab_load *load = crab_load_of(pool, c->place);

    bpf_map_update_elem(&crab_syns, key, &syn, BPF_ANY);
    if (load && !c->known) {
        __sync_fetch_and_add(&load->assigned, 1);
    }
}

/* Choose for a SYN of a client that knows redirects; 0: nobody takes them (C-43). */
CRAB_PART int crab_choose(struct crab_pool *pool, struct crab_vip *vip, struct crab_tuple *t, __u32 iss,
                          struct crab_choice *c)
{
    struct crab_syn_key key = {.tuple = *t, .iss = iss};
    __u64 now = bpf_ktime_get_ns();

    c->repeated = 0;
    c->known = 0;
    if (!crab_seen_before(pool, &key, now, c)) {
        c->place = crab_by_policy(pool, vip, t, now);
        struct crab_backend *b = crab_backend_at(pool, c->place);
        if (!b || b->state != CRAB_BACKEND_UP_CRAB) {
            return 0;
        }
        c->dip = b->addr;
        c->state = b->state;
    }
    crab_remember(pool, &key, c, now);
    return 1;
}

/* The SYN just chosen for goes to the other program of this host to be sent. */
static __always_inline void crab_hand_over(struct crab_tuple *t, __u32 iss)
{
    struct crab_syn_key key = {.tuple = *t, .iss = iss};
    struct crab_syn *syn = bpf_map_lookup_elem(&crab_syns, &key);

    if (syn) {
        syn->undelivered = 1;
    }
}

/* Choose by consistent hash; 0: nobody is up. */
static __always_inline int crab_choose_by_hash(struct crab_pool *pool, struct crab_tuple *t, struct crab_choice *c)
{
    __u32 slot = crab_tuple_hash(t) % CRAB_MAGLEV_SLOTS;

    CRAB_OPAQUE(slot);
    if (pool->hashed == 0 || slot >= CRAB_MAGLEV_SLOTS) {
        return 0;
    }
    c->place = pool->maglev[slot];
    struct crab_backend *b = crab_backend_at(pool, c->place);
    if (!b) {
        return 0;
    }
    c->dip = b->addr;
    c->state = b->state;
    c->repeated = 0;
    c->known = 0;
    return 1;
}

#endif
