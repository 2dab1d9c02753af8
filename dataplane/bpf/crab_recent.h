/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the hash maps said of a connection a moment ago, in front of them: a look-up there is a third of what a
 * translated packet costs. Each CPU keeps its own answers in an array, for a quarter of a second; then the map is
 * asked again, which keeps the connection young and its next hop true (C-103).
 *
 * An answer is from one epoch of its slot. Every packet with SYN ends the epoch, after the maps were changed:
 * only those make, replace or remove what is known of a client's port. All connections of a port share a slot,
 * in both directions, so that one step is enough. The agent, which forgets what was silent, needs none: its
 * connections were silent for longer than an answer lives, or ended for longer.
 */
#ifndef CRAB_RECENT_H
#define CRAB_RECENT_H

#include "crab_maps.h"

#define CRAB_RECENT_SLOTS 1024 /* in each direction */

/* Nobody but the programs reads it. */
struct crab_recent {
    struct crab_tuple tuple;
    crab_addr to;
    __u32 epoch; /* of its slot, crab_epochs */
    __u32 seen;  /* CRAB_HOP_SHIFT */
    __u8 hop[6]; /* where the frame goes; of those with a hop */
    __u8 has_hop;
    __u8 pad;
};

enum crab_direction { CRAB_OUT = 0, CRAB_IN = 1 };

#ifdef CRAB_SIX

/* 16-byte addresses leave no room for it on the stack (512 bytes for all frames): the maps are asked every time. */
#define crab_recent_of(t, way, now)              ((void)(now), (struct crab_recent *)NULL)
#define crab_recent_keep(t, way, epoch, now, to) ((void)(epoch), (void)(now), (struct crab_recent *)NULL)
#define crab_recent_epoch(t)                     0
#define crab_recent_end(t)                       ((void)(t))

#else

CRAB_MAP(BPF_MAP_TYPE_PERCPU_ARRAY, crab_recent, __u32, struct crab_recent, 2 * CRAB_RECENT_SLOTS);
CRAB_MAP(BPF_MAP_TYPE_ARRAY, crab_epochs, __u32, __u32, CRAB_RECENT_SLOTS);

/* The slot of a client's port; the server is left out, which is VIP in one direction and DIP in the other. */
static __always_inline __u32 crab_recent_slot(struct crab_tuple *t)
{
    return crab_mix_addr((__u32)t->client_port << 16 | t->server_port, t->client) % CRAB_RECENT_SLOTS;
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

    if (epoch)
        __sync_fetch_and_add(epoch, 1);
}

static __always_inline __u32 crab_recent_time(__u64 now)
{
    return (__u32)(now >> CRAB_HOP_SHIFT);
}

static __always_inline struct crab_recent *crab_recent_entry(__u32 slot, enum crab_direction way)
{
    __u32 at = 2 * slot + way;
    return bpf_map_lookup_elem(&crab_recent, &at);
}

/* The answer for t, when it is from this epoch and this quarter of a second. */
static __always_inline struct crab_recent *crab_recent_of(struct crab_tuple *t, enum crab_direction way, __u64 now)
{
    __u32 slot = crab_recent_slot(t);
    struct crab_recent *r = crab_recent_entry(slot, way);

    if (!r || r->tuple.client_port != t->client_port || r->tuple.server_port != t->server_port ||
        !crab_addr_same(r->tuple.client, t->client) || !crab_addr_same(r->tuple.server, t->server) ||
        r->seen != crab_recent_time(now) || r->epoch != crab_slot_epoch(slot))
        return NULL;
    return r;
}

/* Keep an answer; epoch is what crab_recent_epoch said before the maps were asked. The caller adds the hop, if there is
 * one.
 */
static __always_inline struct crab_recent *crab_recent_keep(struct crab_tuple *t, enum crab_direction way, __u32 epoch,
                                                            __u64 now, crab_addr *to)
{
    struct crab_recent *r = crab_recent_entry(crab_recent_slot(t), way);

    if (!r)
        return NULL;
    r->tuple = *t;
    r->to = *to;
    r->epoch = epoch;
    r->seen = crab_recent_time(now);
    r->has_hop = 0;
    return r;
}

#endif

#endif
