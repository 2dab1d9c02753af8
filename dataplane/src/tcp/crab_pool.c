// SPDX-License-Identifier: Apache-2.0
#include "tcp/crab_pool.h"

#include "base/mem.h"
#include "tcp/crab_hash.h"

#include <string.h>

// --- building

struct parts {
    struct bt_crab_pool *pool;
    struct bt_crab_backend *backends;
    struct bt_maglev_entry *entries;
    uint32_t *ready;
    uint64_t *weight_sum;
    void *scratch;
};

static struct parts lay_out(struct bt_mem *m, uint32_t n)
{
    struct parts a;
    a.pool = bt_mem_take(m, sizeof *a.pool);
    a.backends = bt_mem_take(m, n * sizeof *a.backends);
    a.entries = bt_mem_take(m, n * sizeof *a.entries);
    a.ready = bt_mem_take(m, n * sizeof *a.ready);
    a.weight_sum = bt_mem_take(m, n * sizeof *a.weight_sum);
    a.scratch = bt_mem_take(m, bt_maglev_scratch_bytes(n));
    struct bt_crab_report *reports = bt_mem_take(m, n * sizeof *reports);
    uint32_t *picked = bt_mem_take(m, n * sizeof *picked);
    uint64_t *picked_for_ns = bt_mem_take(m, n * sizeof *picked_for_ns);
    uint16_t *slots = bt_mem_take(m, BT_MAGLEV_BYTES);
    if (a.pool != NULL) {
        *a.pool = (struct bt_crab_pool){.n = n,
                                        .backends = a.backends,
                                        .ready = a.ready,
                                        .weight_sum = a.weight_sum,
                                        .reports = reports,
                                        .picked = picked,
                                        .picked_for_ns = picked_for_ns,
                                        .by_hash = {slots}};
    }
    return a;
}

size_t bt_crab_pool_bytes(uint32_t n)
{
    struct bt_mem m;
    bt_mem_init(&m, NULL, 0);
    lay_out(&m, n);
    return m.used;
}

struct bt_crab_pool *bt_crab_pool_build(void *mem, const struct bt_crab_backend *backends, uint32_t n, uint64_t seed)
{
    struct bt_mem m;
    bt_mem_init(&m, mem, bt_crab_pool_bytes(n));
    struct parts a = lay_out(&m, n);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct bt_crab_backend *b = &backends[i];
        a.backends[i] = *b;
        a.entries[i] = (struct bt_maglev_entry){.name = bt_crab_hash_addr(&b->ip), .weight = b->up ? b->weight : 0};
        if (!b->up || !b->capable) {
            continue;
        }
        sum += b->weight;
        a.ready[a.pool->n_ready] = i;
        a.weight_sum[a.pool->n_ready++] = sum;
    }
    a.pool->even = true;
    for (uint32_t k = 0; k < a.pool->n_ready; k++) {
        a.pool->even &= backends[a.ready[k]].weight == backends[a.ready[0]].weight;
    }
    bt_maglev_build(&a.pool->by_hash, a.entries, n, seed, a.scratch);
    return a.pool;
}

// --- choosing

// Open connections as far as known: the report and what was chosen since. False: the report is too old (C-62).
static bool load_of(struct bt_crab_pool *p, uint32_t i, const struct bt_crab_chooser *c, uint64_t now, uint64_t *load)
{
    uint64_t at = atomic_load_explicit(&p->reports[i].at_ns, memory_order_acquire);
    if (at != p->picked_for_ns[i]) {
        p->picked_for_ns[i] = at;
        p->picked[i] = 0;
    }
    *load = (uint64_t)atomic_load_explicit(&p->reports[i].open, memory_order_relaxed) + p->picked[i];
    return at != 0 && (now <= at || now - at <= c->stale_ns);
}

static uint32_t any(struct bt_crab_pool *p, struct bt_crab_chooser *c)
{
    return p->ready[bt_rng_below(&c->rng, p->n_ready)];
}

// Whether one server has fewer connections than another, each for its weight.
static bool fewer(const struct bt_crab_pool *p, uint64_t load, uint32_t i, uint64_t than, uint32_t other)
{
    return load * p->backends[other].weight < than * p->backends[i].weight; // 33 and 16 bits
}

static uint32_t lesser_of_two(struct bt_crab_pool *p, struct bt_crab_chooser *c, uint64_t now)
{
    uint32_t a = any(p, c), b = any(p, c);
    uint64_t load_a, load_b;
    bool known_a = load_of(p, a, c, now, &load_a), known_b = load_of(p, b, c, now, &load_b);
    return known_a && known_b && fewer(p, load_b, b, load_a, a) ? b : a;
}

// The search begins where the last one ended, so that equals take turns.
static uint32_t least(struct bt_crab_pool *p, struct bt_crab_chooser *c, uint64_t now)
{
    uint32_t start = (uint32_t)(atomic_fetch_add_explicit(c->cursor, 1, memory_order_relaxed) % p->n_ready);
    uint32_t best = BT_CRAB_NOBODY;
    uint64_t fewest = 0;
    for (uint32_t k = 0; k < p->n_ready; k++) {
        uint32_t at = start + k < p->n_ready ? start + k : start + k - p->n_ready;
        uint64_t load;
        if (!load_of(p, p->ready[at], c, now, &load)) {
            return lesser_of_two(p, c, now);
        }
        if (best == BT_CRAB_NOBODY || fewer(p, load, p->ready[at], fewest, best)) {
            fewest = load;
            best = p->ready[at];
        }
    }
    return best;
}

// Steps of the golden ratio fall evenly into [0, 1) however many there are (Weyl): each server's share of them is its
// weight's, without the bursts of a list that repeats it.
static uint32_t weighted(struct bt_crab_pool *p, struct bt_crab_chooser *c)
{
    uint64_t turn = atomic_fetch_add_explicit(c->cursor, 1, memory_order_relaxed) * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t at = ((turn >> 32) * p->weight_sum[p->n_ready - 1]) >> 32; // the sum is below 2^21
    uint32_t low = 0, high = p->n_ready - 1;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (p->weight_sum[mid] > at) {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    return p->ready[low];
}

// Where the table names a server that cannot take part, the search goes on along the ring of hashes.
static uint32_t by_hash(const struct bt_crab_pool *p, uint64_t hash)
{
    for (uint32_t tries = 0; tries < 64; tries++) {
        uint16_t i = bt_maglev_find(&p->by_hash, hash);
        if (i != BT_MAGLEV_NOBODY && p->backends[i].capable) {
            return i;
        }
        hash = bt_maglev_mix(hash, tries);
    }
    return p->ready[hash % p->n_ready];
}

uint32_t bt_crab_pool_choose(struct bt_crab_pool *pool, enum bt_crab_policy policy, struct bt_crab_chooser *chooser,
                             uint64_t hash, uint64_t now_ns)
{
    uint32_t i = BT_CRAB_NOBODY;
    if (pool->n_ready == 0) {
        return i;
    }
    switch (policy) {
    case BT_CRAB_ROUND_ROBIN:
        if (!pool->even) {
            i = weighted(pool, chooser);
            break;
        }
        i = pool->ready[atomic_fetch_add_explicit(chooser->cursor, 1, memory_order_relaxed) % pool->n_ready];
        break;
    case BT_CRAB_WEIGHTED:
        i = weighted(pool, chooser);
        break;
    case BT_CRAB_RANDOM:
        i = any(pool, chooser);
        break;
    case BT_CRAB_HASH:
        i = by_hash(pool, hash);
        break;
    case BT_CRAB_POWER_OF_TWO:
        i = lesser_of_two(pool, chooser, now_ns);
        break;
    case BT_CRAB_LEAST:
        i = least(pool, chooser, now_ns);
        break;
    case BT_CRAB_POLICIES:
        return i;
    }
    pool->picked[i]++;
    return i;
}

uint32_t bt_crab_pool_find_ready(const struct bt_crab_pool *pool, const struct bt_addr *ip)
{
    for (uint32_t k = 0; k < pool->n_ready; k++) {
        if (bt_addr_ip_eq(&pool->backends[pool->ready[k]].ip, ip)) {
            return pool->ready[k];
        }
    }
    return BT_CRAB_NOBODY;
}

bool bt_crab_pool_report(struct bt_crab_pool *pool, const struct bt_addr *ip, uint32_t open, uint64_t now_ns)
{
    for (uint32_t i = 0; i < pool->n; i++) {
        if (!bt_addr_ip_eq(&pool->backends[i].ip, ip)) {
            continue;
        }
        atomic_store_explicit(&pool->reports[i].open, open, memory_order_relaxed);
        atomic_store_explicit(&pool->reports[i].at_ns, now_ns, memory_order_release);
        return true;
    }
    return false;
}

void bt_crab_pool_inherit(struct bt_crab_pool *pool, const struct bt_crab_pool *old)
{
    for (uint32_t i = 0; i < old->n; i++) {
        uint64_t at = atomic_load_explicit(&old->reports[i].at_ns, memory_order_acquire);
        uint32_t open = atomic_load_explicit(&old->reports[i].open, memory_order_relaxed);
        if (at != 0) {
            bt_crab_pool_report(pool, &old->backends[i].ip, open, at);
        }
    }
}
