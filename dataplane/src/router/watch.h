// SPDX-License-Identifier: Apache-2.0
// Latency as the router sees it: from a REQ0's arrival to the FEEDBACK that names its pair. What every packet does, in
// a header, because it is the larger part of an RPC and its calls would add a quarter to it; the rest is watch.c.
#ifndef BOBTAIL_ROUTER_WATCH_H
#define BOBTAIL_ROUTER_WATCH_H

#include "base/mem.h"
#include "router/watchers.h"

EVERY_PACKET uint32_t *watch_slot(const struct pair_watch *watch, const struct pair_key *key)
{
    uint32_t hash = bt_pairs_hash_words(watch->seed, key->ip[0], key->ip[1], (uint32_t)key->who);
    return &watch->slots[hash & watch->mask];
}

EVERY_PACKET struct pair_key watch_key(const struct bt_addr *client, uint16_t req_id, uint32_t w)
{
    return (struct pair_key){{bt_addr_half(client, 0), bt_addr_half(client, 8)},
                             (uint64_t)w << 32 | bt_pairs_id(client->port, req_id)};
}

EVERY_PACKET bool watch_same(const struct pair_key *a, struct pair_key b)
{
    return a->who == b.who && a->ip[1] == b.ip[1] && a->ip[0] == b.ip[0];
}

EVERY_PACKET void watch_append(struct pair *slab, uint32_t i)
{
    uint32_t newest = slab[0].older;
    slab[i].older = newest;
    slab[i].newer = 0;
    slab[newest].newer = i;
    slab[0].older = i;
}

EVERY_PACKET void watch_unlink(struct pair *slab, const struct pair *p)
{
    slab[p->older].newer = p->newer;
    slab[p->newer].older = p->older;
}

/* Takes pair i, to which *link leads, out of its slot and age, and frees it. */
EVERY_PACKET void watch_remove(struct pair_watch *watch, uint32_t *link, uint32_t i)
{
    struct pair *slab = watch->slab, *p = &slab[i];
    *link = p->next;
    watch_unlink(slab, p);
    p->next = watch->free;
    watch->free = i;
    watch->count--;
}

void router_watch_init(struct bt_router *r, uint32_t limit, struct bt_mem *mem, uint64_t seed);
void router_watch_expire(struct bt_router *r, uint64_t now);
void router_watch_forget(struct bt_router *r, uint32_t i); /* pair i is watched no more, and counts nowhere */
uint64_t router_watch_next(const struct bt_router *r);

/* The slot is taken: true if it holds the same identity, and what has to be done is done. */
bool router_watch_again(struct bt_router *r, uint32_t i, struct pair_key key, struct pair_sent sent, uint8_t label);

/* Further along the slot; NULL if the pair is not there. */
uint32_t *router_watch_search(const struct pair_watch *watch, uint32_t *link, struct pair_key key);

/* There is no room: the table is full, or pairs are watched elsewhere. */
void router_watch_full(struct bt_router *r, struct pair_key key, struct pair_sent sent, uint8_t label);

/* A request was sent. */
EVERY_PACKET void router_watch_start(struct bt_router *r, struct pair_key key, struct pair_sent sent, uint8_t label)
{
    struct pair_watch *watch = &r->pairs;
    struct pair *slab = watch->slab;
    uint32_t *slot = watch_slot(watch, &key), i = watch->free, first = *slot;
    if (__builtin_expect(first != 0, 0) && router_watch_again(r, first, key, sent, label)) {
        return;
    }
    if (__builtin_expect(i == 0, 0)) {
        router_watch_full(r, key, sent, label);
        return;
    }
    watch->free = slab[i].next;
    *slot = i;
    watch->count++;
    slab[i].key = key;
    slab[i].next = first;
    slab[i].sent = sent;
    watch_append(slab, i);
    if (__builtin_expect(r->noted, 0)) {
        router_tell_began(r, i, label);
    }
}

/* Its worker is done with a pair that is not the end of its request: nothing else comes of it. */
void router_watch_end_late(struct bt_router *r, uint64_t now, uint32_t *link, struct bt_credit *credit);

/* The pair's worker, whose credit is given, says that it is done with it. unserved: 0, or what its FEEDBACK says of
 * BT_FEEDBACK_DROPPED and BT_FEEDBACK_CANCELLED. */
EVERY_PACKET void router_watch_end(struct bt_router *r, uint64_t now, struct pair_key key, struct bt_credit *credit,
                                   uint8_t unserved)
{
    struct pair_watch *watch = &r->pairs;
    uint32_t *link = watch_slot(watch, &key), i = *link;
    if (__builtin_expect(!watch_same(&watch->slab[i].key, key), 0)) {
        link = router_watch_search(watch, link, key);
        if (link == NULL) {
            r->counter[BT_RC_PAIRS_UNKNOWN]++;
            return;
        }
        i = *link;
    }
    if (__builtin_expect(r->noted, 0) && router_tell_ended(r, now, i, unserved) != ROUTER_END) {
        router_watch_end_late(r, now, link, credit);
        return;
    }
    const struct pair_sent sent = watch->slab[i].sent;
    watch_remove(watch, link, i);
    r->response[63u - (uint32_t)__builtin_clzll((now - sent.at) | 1u)]++;
    bt_credit_finished(credit, sent.index);
    r->counter[unserved ? BT_RC_PAIRS_REJECTED : BT_RC_PAIRS_FINISHED]++;
    if (r->latency == NULL) {
        return;
    }
    if (unserved) {
        bt_hist_slices_rejected(r->latency, now, 1);
    } else {
        bt_hist_slices_record(r->latency, now, now - sent.since); /* no packet arrived after the latest time */
    }
}

/* A request of this identity will soon be sent: its slot shall be on its way to the cache. */
static inline void router_watch_expect(const struct bt_router *r, const struct bt_addr *client, uint16_t req_id)
{
    struct pair_key key = watch_key(client, req_id, 0);
    __builtin_prefetch(watch_slot(&r->pairs, &key), 1);
}

#endif
