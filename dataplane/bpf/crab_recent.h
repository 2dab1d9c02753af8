/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the hash maps said of a connection a moment ago, in front of them: a look-up there is a third of what a
 * translated packet costs. Each CPU keeps its own answers in an array, for an eighth of a second; then the map is
 * asked again, which keeps the connection young and its next hop true (C-103). Who asks: crab_quick.h.
 *
 * An answer is from one epoch of its slot. Every packet with SYN ends the epoch, after the maps were changed:
 * only those make, replace or remove what is known of a client's port. All connections of a port share a slot,
 * in both directions, so that one step is enough. The agent, which forgets what was silent, needs none: its
 * connections were silent for longer than an answer lives, or ended for longer.
 *
 * That the maps know nothing is an answer as well, and the commonest: most of what a node sends and receives is none
 * of ours. Those have a place of their own, so that they push out no answer that changes a packet.
 */
#ifndef CRAB_RECENT_H
#define CRAB_RECENT_H

#include "crab_skb.h"

#define CRAB_RECENT_SLOTS 1024 /* in each direction; crab_port_slot */
#define CRAB_RECENT_SHIFT 5    /* an answer lives 32 ticks: 128 ms with 250 in a second, 320 ms at most */

/* Nobody but the programs reads it. Half a cache line. */
struct crab_recent {
    __u64 addrs; /* source and destination as the packet has them */
    __u32 ports; /* source and destination again */
    crab_addr to;
    __u32 epoch;  /* of its slot, crab_epochs */
    __u32 seen;   /* crab_recent_time */
    __u8 hop[6];  /* where the frame goes; of those with a hop */
    __u16 change; /* what a sum gains with the new address, folded */
};

enum crab_direction { CRAB_OUT = 0, CRAB_IN = 1 };

#ifdef CRAB_SIX

/* 16-byte addresses leave no room for it on the stack (512 bytes for all frames): the maps are asked every time. */
#define crab_recent_keep(t, way, epoch, to, hop) ((void)(epoch))
#define crab_recent_epoch(t)                     0
#define crab_recent_end(t)                       ((void)(t))
#define crab_nothing_keep(t, way, epoch)         ((void)(epoch))

#else

/* Each element of an array of each CPU lies for itself and is found by a pointer: one that holds many costs a look
 * less. */
#define CRAB_RECENT_BUNCH 512
struct crab_recents {
    struct crab_recent of[CRAB_RECENT_BUNCH];
};

CRAB_MAP(BPF_MAP_TYPE_PERCPU_ARRAY, crab_answers, __u32, struct crab_recents,
         2 * CRAB_RECENT_SLOTS / CRAB_RECENT_BUNCH);
CRAB_MAP(BPF_MAP_TYPE_ARRAY, crab_epochs, __u32, __u32, CRAB_RECENT_SLOTS);

/* The slot of a client's port; the server is left out, which is VIP in one direction and DIP in the other. */
static __always_inline __u32 crab_port_slot(crab_addr client, __be16 client_port)
{
    return (client ^ client_port) * 0x9e3779b1U >> 22;
}

static __always_inline __u32 crab_recent_slot(struct crab_tuple *t)
{
    return crab_port_slot(t->client, t->client_port);
}

static __always_inline __u32 crab_slot_epoch(__u32 slot)
{
    __u32 *epoch = bpf_map_lookup_elem(&crab_epochs, &slot);
    return epoch ? *(volatile __u32 *)epoch : 0;
}

static __always_inline __u32 crab_recent_epoch(struct crab_tuple *t)
{
    return crab_slot_epoch(crab_recent_slot(t));
}

/* What was known is not any more; called after the maps were changed. */
static __always_inline void crab_recent_end(struct crab_tuple *t)
{
    __u32 slot = crab_recent_slot(t);
    __u32 *epoch = bpf_map_lookup_elem(&crab_epochs, &slot);

    if (epoch) {
        __sync_fetch_and_add(epoch, 1);
    }
}

/* The present as crab_recent.seen has it; answers with and without a hop are not each other's. */
static __always_inline __u32 crab_recent_time(int with_hop)
{
    return (__u32)(bpf_jiffies64() >> CRAB_RECENT_SHIFT) << 1 | (with_hop != 0);
}

static __always_inline struct crab_recent *crab_recent_entry(__u32 slot, enum crab_direction way)
{
    __u32 bunch = way * (CRAB_RECENT_SLOTS / CRAB_RECENT_BUNCH) + slot / CRAB_RECENT_BUNCH;
    struct crab_recents *all = bpf_map_lookup_elem(&crab_answers, &bunch);

    if (CRAB_RARELY(!all)) {
        return NULL;
    }
    struct crab_recent *r = &all->of[slot % CRAB_RECENT_BUNCH];
    CRAB_OPAQUE(r); /* else it is worked out anew for every field */
    return r;
}

/*
 * Keep what becomes of the packets of t: their other address, and their next hop unless it is NULL. epoch is what
 * crab_recent_epoch said before the maps were asked.
 */
static __always_inline void crab_recent_keep(struct crab_tuple *t, enum crab_direction way, __u32 epoch, crab_addr to,
                                             const __u8 *hop)
{
    struct crab_recent *r = crab_recent_entry(crab_recent_slot(t), way);
    __u32 from = t->server;

    if (!r) {
        return;
    }
    r->addrs = way == CRAB_OUT ? t->client | (__u64)from << 32 : from | (__u64)t->client << 32;
    r->ports =
        way == CRAB_OUT ? t->client_port | (__u32)t->server_port << 16 : t->server_port | (__u32)t->client_port << 16;
    r->to = to;
    r->epoch = epoch;
    r->seen = crab_recent_time(hop != NULL);
    r->change = crab_sum_change(from, to);
    if (hop) {
        __builtin_memcpy(r->hop, hop, sizeof(r->hop));
    }
}

/* Nothing is known of a connection whose packets are these. */
struct crab_nothing {
    __u64 addrs; /* as in crab_recent */
    __u32 ports;
    __u32 epoch;
    __u32 seen;
    __u32 pad;
};

struct crab_nothings {
    struct crab_nothing of[CRAB_RECENT_SLOTS];
};

CRAB_MAP(BPF_MAP_TYPE_PERCPU_ARRAY, crab_nothings, __u32, struct crab_nothings, 2);

static __always_inline struct crab_nothing *crab_nothing_entry(__u32 slot, enum crab_direction way)
{
    __u32 key = way;
    struct crab_nothings *all = bpf_map_lookup_elem(&crab_nothings, &key);

    if (CRAB_RARELY(!all)) {
        return NULL;
    }
    struct crab_nothing *n = &all->of[slot % CRAB_RECENT_SLOTS];
    CRAB_OPAQUE(n);
    return n;
}

static __always_inline void crab_nothing_keep(struct crab_tuple *t, enum crab_direction way, __u32 epoch)
{
    struct crab_nothing *n = crab_nothing_entry(crab_recent_slot(t), way);

    if (!n) {
        return;
    }
    n->addrs = way == CRAB_OUT ? t->client | (__u64)t->server << 32 : t->server | (__u64)t->client << 32;
    n->ports =
        way == CRAB_OUT ? t->client_port | (__u32)t->server_port << 16 : t->server_port | (__u32)t->client_port << 16;
    n->epoch = epoch;
    n->seen = crab_recent_time(0);
}

#endif

#endif
