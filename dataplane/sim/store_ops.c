// SPDX-License-Identifier: Apache-2.0
// See store_ops.h.
#include "store_ops.h"

static uint32_t below(struct bt_rng *rng, uint64_t n)
{
    return bt_rng_below(rng, (uint32_t)n);
}

static struct sim_store_bytes draw_bytes(struct bt_rng *rng, uint32_t most)
{
    uint32_t length = below(rng, 8) == 0 ? below(rng, most + 1) : below(rng, 120);
    return (struct sim_store_bytes){.seed = bt_rng_next(rng), .length = length};
}

static void draw_append(struct bt_rng *rng, const struct sim_store_state *now, struct sim_store_op *o)
{
    uint32_t n = 1 + below(rng, SIM_STORE_ENTRIES_MOST);
    o->op.kind = BT_STORE_APPEND;
    for (uint32_t i = 0; i < n && now->last + 1 + i < SIM_STORE_INDEX_MOST; i++) {
        struct sim_store_step *s = &o->step[o->steps];
        *s = (struct sim_store_step){.kind = BT_STORE_APPEND, .index = now->last + 1 + i, .term = now->hard.term + 1};
        s->entry_kind = (uint8_t)below(rng, BT_ENTRY_KINDS);
        s->bytes = draw_bytes(rng, SIM_STORE_BODY_MOST);
        sim_store_fill(o->bytes[i], s->bytes);
        o->entry[o->steps++] = (struct bt_entry){
            .index = s->index, .term = s->term, .kind = s->entry_kind, .length = s->bytes.length, .body = o->bytes[i]};
    }
    o->op.append.entry = o->entry;
    o->op.append.count = o->steps;
}

static void only_step(struct sim_store_op *o, struct sim_store_step s)
{
    o->op.kind = s.kind;
    o->step[0] = s;
    o->steps = 1;
}

static void draw_truncate(struct bt_rng *rng, const struct sim_store_state *now, struct sim_store_op *o)
{
    uint64_t from = now->last + 1 - below(rng, now->last - now->base + 1);
    only_step(o, (struct sim_store_step){.kind = BT_STORE_TRUNCATE, .index = from});
    o->op.from = from;
}

static void draw_hard_state(struct bt_rng *rng, const struct sim_store_state *now, struct sim_store_op *o)
{
    struct bt_hard_state h = {.term = now->hard.term + below(rng, 3)};
    h.vote = (uint16_t)below(rng, 4);
    if (h.term == now->hard.term && now->hard.vote != 0) {
        h.vote = now->hard.vote;
    }
    only_step(o, (struct sim_store_step){.kind = BT_STORE_HARD_STATE, .term = h.term, .vote = h.vote});
    o->op.hard_state = h;
}

static void snapshot_of(struct bt_rng *rng, struct sim_store_op *o, uint64_t index, uint64_t term)
{
    struct sim_store_step s = {.kind = BT_STORE_SNAPSHOT, .index = index, .term = term};
    s.members = (uint16_t)(1 + below(rng, 9));
    s.bytes = draw_bytes(rng, SIM_STORE_SNAPSHOT_MOST);
    only_step(o, s);
    sim_store_fill(o->bytes[0], s.bytes);
    o->op.snapshot = (struct bt_snapshot){.last_index = index,
                                          .last_term = term,
                                          .config = sim_store_config(s.members),
                                          .bytes = o->bytes[0],
                                          .length = s.bytes.length};
}

/* Of the own log, or one beyond it that a leader sent. */
static void draw_snapshot(struct bt_rng *rng, const struct sim_store_state *now, struct sim_store_op *o)
{
    uint64_t index = now->snapshot + below(rng, now->last - now->snapshot + 1);
    uint64_t term = index > now->base ? now->entry[index].term : now->snapshot_term;
    if (below(rng, 4) == 0 && now->last + 32 < SIM_STORE_INDEX_MOST) {
        index = now->last + 1 + below(rng, 20);
        term = now->hard.term + 1;
    }
    snapshot_of(rng, o, index, term);
}

static void compact_to(const struct sim_store_state *now, struct sim_store_op *o)
{
    only_step(o, (struct sim_store_step){.kind = BT_STORE_COMPACT, .index = now->snapshot});
    o->op.to = now->snapshot;
}

void sim_store_draw(struct bt_rng *rng, const struct sim_store_state *now, bool tidy, struct sim_store_op *o)
{
    uint32_t what = below(rng, 100);
    o->steps = 0;
    if (tidy && now->snapshot == now->last) {
        compact_to(now, o);
    } else if (tidy) {
        snapshot_of(rng, o, now->last, now->entry[now->last].term);
    } else if (what < 60 && now->last + 1 < SIM_STORE_INDEX_MOST) {
        draw_append(rng, now, o);
    } else if (what < 70) {
        draw_truncate(rng, now, o);
    } else if (what < 85) {
        draw_hard_state(rng, now, o);
    } else if (what < 93) {
        draw_snapshot(rng, now, o);
    } else {
        compact_to(now, o);
    }
}
