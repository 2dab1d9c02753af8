// SPDX-License-Identifier: Apache-2.0
// See kept.h.
#include "replica/kept.h"

#include <string.h>

static size_t rounded(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

size_t replica_kept_bytes(uint32_t slots, uint32_t cell)
{
    return rounded(bt_pairs_bytes(slots)) + rounded(slots * sizeof(struct replica_request)) +
           rounded((size_t)slots * cell);
}

void replica_kept_init(struct replica_kept *k, void *mem, uint32_t slots, uint32_t cell, uint64_t seed)
{
    uint8_t *m = mem;
    bt_pairs_init(&k->pairs, m, slots, (uint64_t[]){seed, ~seed});
    m += rounded(bt_pairs_bytes(slots));
    k->request = (struct replica_request *)(void *)m;
    m += rounded(slots * sizeof *k->request);
    k->bytes = m;
    k->cell = cell;
    k->oldest = k->newest = REPLICA_NOBODY;
    k->free = 0;
    k->count = 0;
    for (uint32_t i = 0; i < slots; i++) {
        k->request[i] = (struct replica_request){.newer = i + 1 < slots ? i + 1 : REPLICA_NOBODY};
    }
}

uint32_t replica_kept_find(const struct replica_kept *k, const struct bt_group_meta *m)
{
    uint32_t at = bt_pairs_find(&k->pairs, &m->client, m->req_id);
    if (at == BT_PAIRS_NONE) {
        return REPLICA_NOBODY;
    }
    const struct bt_group_meta *had = &k->request[at].meta;
    return had->hash == m->hash && had->length == m->length ? at : REPLICA_NOBODY;
}

void replica_kept_remove(struct replica_kept *k, uint32_t at)
{
    struct replica_request *r = &k->request[at];
    bt_pairs_del(&k->pairs, &r->meta.client, r->meta.req_id);
    if (r->older != REPLICA_NOBODY) {
        k->request[r->older].newer = r->newer;
    } else {
        k->oldest = r->newer;
    }
    if (r->newer != REPLICA_NOBODY) {
        k->request[r->newer].older = r->older;
    } else {
        k->newest = r->older;
    }
    r->newer = k->free;
    k->free = at;
    k->count--;
}

bool replica_kept_put(struct replica_kept *k, const struct replica_request *r, const uint8_t *body)
{
    uint32_t same = bt_pairs_find(&k->pairs, &r->meta.client, r->meta.req_id);
    if (same != BT_PAIRS_NONE) {
        replica_kept_remove(k, same);
    }
    bool full = k->free == REPLICA_NOBODY;
    if (full) {
        replica_kept_remove(k, k->oldest);
    }
    uint32_t at = k->free;
    k->free = k->request[at].newer;
    k->request[at] = *r;
    k->request[at].older = k->newest;
    k->request[at].newer = REPLICA_NOBODY;
    if (k->newest != REPLICA_NOBODY) {
        k->request[k->newest].newer = at;
    } else {
        k->oldest = at;
    }
    k->newest = at;
    k->count++;
    bt_pairs_put(&k->pairs, &r->meta.client, r->meta.req_id, at);
    if (r->meta.length > 0) {
        memcpy(k->bytes + (size_t)at * k->cell, body, r->meta.length);
    }
    return full;
}

uint32_t replica_kept_expire(struct replica_kept *k, uint64_t since)
{
    uint32_t n = 0;
    while (k->oldest != REPLICA_NOBODY && k->request[k->oldest].arrived_ns < since) {
        replica_kept_remove(k, k->oldest);
        n++;
    }
    return n;
}

size_t replica_recent_bytes(uint32_t slots)
{
    return rounded(bt_pairs_bytes(slots)) + rounded(slots * sizeof(struct replica_ordered));
}

void replica_recent_init(struct replica_recent *r, void *mem, uint32_t slots, uint64_t seed)
{
    uint8_t *m = mem;
    bt_pairs_init(&r->pairs, m, slots, (uint64_t[]){seed, ~seed});
    r->ordered = (struct replica_ordered *)(void *)(m + rounded(bt_pairs_bytes(slots)));
    r->slots = slots;
    r->next = 0;
    memset(r->ordered, 0, slots * sizeof *r->ordered);
}

void replica_recent_forget(struct replica_recent *r, const struct bt_group_meta *m)
{
    uint32_t at = bt_pairs_del(&r->pairs, &m->client, m->req_id);
    if (at != BT_PAIRS_NONE) {
        r->ordered[at].is = false;
    }
}

void replica_recent_add(struct replica_recent *r, const struct bt_group_meta *m, uint64_t now)
{
    replica_recent_forget(r, m);
    struct replica_ordered *o = &r->ordered[r->next];
    if (o->is) {
        bt_pairs_del(&r->pairs, &o->meta.client, o->meta.req_id);
    }
    *o = (struct replica_ordered){.meta = *m, .at_ns = now, .is = true};
    bt_pairs_put(&r->pairs, &m->client, m->req_id, r->next);
    r->next = r->next + 1 < r->slots ? r->next + 1 : 0;
}

bool replica_recent_find(const struct replica_recent *r, const struct bt_group_meta *m, uint64_t *at_ns)
{
    uint32_t at = bt_pairs_find(&r->pairs, &m->client, m->req_id);
    if (at == BT_PAIRS_NONE) {
        return false;
    }
    *at_ns = r->ordered[at].at_ns;
    return true;
}
