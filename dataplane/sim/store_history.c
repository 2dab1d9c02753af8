// SPDX-License-Identifier: Apache-2.0
// See store_history.h.
#include "store_history.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

void sim_store_fill(uint8_t *out, struct sim_store_bytes b)
{
    struct bt_rng rng;
    bt_rng_seed(&rng, b.seed);
    for (uint32_t i = 0; i < b.length; i++) {
        out[i] = (uint8_t)bt_rng_next(&rng);
    }
}

struct bt_group_config sim_store_config(uint16_t n)
{
    struct bt_group_config c = {.count = n};
    for (uint16_t i = 0; i < n; i++) {
        c.member[i] = (struct bt_group_member){.id = (uint16_t)(i + 1), .role = BT_GROUP_VOTER};
    }
    return c;
}

static void after_snapshot(struct sim_store_state *s)
{
    if (s->last < s->snapshot) {
        s->base = s->last = s->snapshot;
    }
}

static void apply(struct sim_store_state *s, const struct sim_store_step *p)
{
    switch (p->kind) {
    case BT_STORE_APPEND:
        s->entry[p->index] = *p;
        s->last = p->index;
        break;
    case BT_STORE_TRUNCATE:
        s->last = p->index - 1;
        after_snapshot(s);
        break;
    case BT_STORE_HARD_STATE:
        s->hard = (struct bt_hard_state){.term = p->term, .vote = p->vote};
        break;
    case BT_STORE_SNAPSHOT:
        s->snapshot = p->index;
        s->snapshot_term = p->term;
        s->snapshot_members = p->members;
        s->snapshot_bytes = p->bytes;
        after_snapshot(s);
        break;
    case BT_STORE_COMPACT:
        s->base = p->index > s->base ? p->index : s->base;
        break;
    }
}

void sim_store_told(struct sim_store_history *h, const struct sim_store_step *s)
{
    if (h->steps == SIM_STORE_STEPS_MOST) {
        abort();
    }
    h->step[h->steps++] = *s;
    apply(&h->now, s);
}

static bool same_bytes(const uint8_t *p, uint64_t n, struct sim_store_bytes b)
{
    uint8_t want[SIM_STORE_SNAPSHOT_MOST];
    if (n != b.length) {
        return false;
    }
    sim_store_fill(want, b);
    return n == 0 || memcmp(p, want, n) == 0;
}

static bool same_entry(const struct bt_entry *e, const struct sim_store_step *want)
{
    return e->index == want->index && e->term == want->term && e->kind == want->entry_kind &&
           same_bytes(e->body, e->length, want->bytes);
}

/* NULL: what was recovered is this state; else what is not. */
static const char *differs(const struct sim_store_state *s, const struct bt_recovery *r)
{
    struct bt_group_config config = sim_store_config(s->snapshot_members);
    if (r->hard_state.term != s->hard.term || r->hard_state.vote != s->hard.vote) {
        return "term or vote";
    }
    if (r->snapshot.last_index != s->snapshot || r->snapshot.last_term != s->snapshot_term) {
        return "which snapshot";
    }
    if (r->count != s->last - s->base) {
        return "the number of entries";
    }
    if (!same_bytes(r->snapshot.bytes, r->snapshot.length, s->snapshot_bytes) ||
        memcmp(&config, &r->snapshot.config, sizeof config) != 0) {
        return "the snapshot's bytes";
    }
    for (uint64_t i = 0; i < r->count; i++) {
        if (!same_entry(&r->entry[i], &s->entry[s->base + 1 + i])) {
            return "an entry";
        }
    }
    return NULL;
}

int sim_store_match(struct sim_store_history *h, const struct bt_recovery *r, uint32_t least, const char **why)
{
    struct sim_store_state *s = malloc(sizeof *s);
    int found = -1;
    if (s == NULL) {
        abort();
    }
    *s = h->from;
    for (uint32_t i = 0;; i++) {
        const char *what = i >= least ? differs(s, r) : "";
        found = what == NULL ? (int)i : found;
        *why = what != NULL ? what : *why;
        if (i == h->steps) {
            break;
        }
        apply(s, &h->step[i]);
    }
    free(s);
    return found;
}

void sim_store_go_on(struct sim_store_history *h, uint32_t steps)
{
    h->steps = steps;
    h->acked = steps;
    h->now = h->from;
    for (uint32_t i = 0; i < steps; i++) {
        apply(&h->now, &h->step[i]);
    }
    if (steps > SIM_STORE_STEPS_MOST / 2) { /* what is long past */
        for (uint32_t i = 0; i < h->before; i++) {
            apply(&h->from, &h->step[i]);
        }
        h->steps -= h->before;
        h->acked -= h->before;
        memmove(h->step, h->step + h->before, h->steps * sizeof *h->step);
        h->before = 0;
    }
}
