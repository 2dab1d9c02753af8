// SPDX-License-Identifier: Apache-2.0
// See patience.h.
#include "rpc/patience.h"

#include <assert.h>
#include <stddef.h>

// The place of a source is a mask of its hash: nothing here divides.
static_assert((BT_PATIENCE_SOURCES & (BT_PATIENCE_SOURCES - 1u)) == 0, "a power of two");

static const struct bt_patience_source *known(const struct bt_patience *p, uint32_t hash)
{
    const struct bt_patience_source *s = &p->source[hash & (BT_PATIENCE_SOURCES - 1u)];
    return s->hash == hash ? s : NULL;
}

// Its place; whoever had it is forgotten.
static struct bt_patience_source *place(struct bt_patience *p, uint32_t hash)
{
    struct bt_patience_source *s = &p->source[hash & (BT_PATIENCE_SOURCES - 1u)];
    if (s->hash != hash) {
        *s = (struct bt_patience_source){.hash = hash};
    }
    return s;
}

bool bt_patience_allows(const struct bt_patience *p, uint32_t hash, uint64_t now_ns)
{
    const struct bt_patience_source *s = known(p, hash);
    if (s != NULL && s->until_ns > now_ns) {
        return false;
    }
    return (s != NULL && s->whole >= BT_PATIENCE_PROVEN) || p->all_until_ns <= now_ns;
}

void bt_patience_whole(struct bt_patience *p, uint32_t hash)
{
    struct bt_patience_source *s = place(p, hash);
    s->whole += s->whole < BT_PATIENCE_PROVEN;
}

static uint64_t later(uint64_t until_ns, uint64_t now_ns, uint64_t debt_ns)
{
    return (until_ns > now_ns ? until_ns : now_ns) + debt_ns;
}

void bt_patience_in_vain(struct bt_patience *p, uint32_t hash, uint64_t now_ns, uint64_t held_ns)
{
    struct bt_patience_source *s = place(p, hash);
    if (s->whole < BT_PATIENCE_PROVEN) {
        p->all_until_ns = later(p->all_until_ns, now_ns, held_ns * BT_PATIENCE_ALL);
    }
    s->whole = 0;
    s->until_ns = later(s->until_ns, now_ns, held_ns * BT_PATIENCE_SOURCE);
}
