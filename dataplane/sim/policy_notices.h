// SPDX-License-Identifier: Apache-2.0
// What is to happen at k workers, earliest first. Each worker's own times never fall, so they wait in a ring, and a
// tournament tree over the k ring heads gives the earliest of all: log2(k) comparisons without a branch to guess.
#ifndef BOBTAIL_SIM_POLICY_NOTICES_H
#define BOBTAIL_SIM_POLICY_NOTICES_H

#include <stdint.h>

enum { SIM_NOTICE_WORKER_BITS = 10 }; /* 1,024 workers; times below 2^54 ns are 208 days */
#define SIM_NOTICE_NEVER (UINT64_MAX >> SIM_NOTICE_WORKER_BITS)

struct sim_notice_ring {
    uint64_t *at; /* ns, oldest at head */
    uint32_t head, n, cap;
};

struct sim_notices {
    uint64_t *tree; /* tree[1]: the winner, tree[size + w]: worker w; time and worker in one word */
    struct sim_notice_ring *ring;
    uint32_t size, workers;
};

void sim_notices_init(struct sim_notices *q, uint32_t workers);
void sim_notices_free(struct sim_notices *q);
/* Doubles a ring that is full. */
void sim_notices_grow(struct sim_notice_ring *r);

/* Time of the earliest notice, SIM_NOTICE_NEVER when there is none. */
static inline uint64_t sim_notices_next(const struct sim_notices *q)
{
    return q->tree[1] >> SIM_NOTICE_WORKER_BITS;
}

static inline void sim_notices_climb(struct sim_notices *q, uint32_t w, uint64_t key)
{
    uint32_t i = q->size + w;
    q->tree[i] = key;
    while (i > 1) {
        uint64_t mine = q->tree[i], other = q->tree[i ^ 1u];
        i >>= 1;
        q->tree[i] = mine < other ? mine : other;
    }
}

static inline uint64_t sim_notices_key(uint32_t w, uint64_t t)
{
    return t << SIM_NOTICE_WORKER_BITS | w;
}

/* Worker w will be heard of at t, not before its other notices. */
static inline void sim_notices_push(struct sim_notices *q, uint32_t w, uint64_t t)
{
    struct sim_notice_ring *r = &q->ring[w];
    if (__builtin_expect(r->n == r->cap, 0)) {
        sim_notices_grow(r);
    }
    r->at[(r->head + r->n) & (r->cap - 1u)] = t;
    if (r->n++ == 0) {
        sim_notices_climb(q, w, sim_notices_key(w, t));
    }
}

/* Takes the earliest notice; there is one. Returns its worker. */
static inline uint32_t sim_notices_pop(struct sim_notices *q)
{
    uint32_t w = (uint32_t)q->tree[1] & ((1u << SIM_NOTICE_WORKER_BITS) - 1u);
    struct sim_notice_ring *r = &q->ring[w];
    r->head = (r->head + 1u) & (r->cap - 1u);
    r->n--;
    sim_notices_climb(q, w, r->n > 0 ? sim_notices_key(w, r->at[r->head]) : UINT64_MAX);
    return w;
}

#endif
