// SPDX-License-Identifier: Apache-2.0
// Hierarchical timing wheel: intrusive timers, absolute deadlines in ns,
// O(1) add and delete, and a cheap answer to "when must I wake up next".
// A timer never fires early and at most one tick (256 ns) late.
#ifndef BT_BASE_WHEEL_H
#define BT_BASE_WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BT_WHEEL_SHIFT  8 // ns per tick = 2^8
#define BT_WHEEL_BITS   6 // 64 slots a level
#define BT_WHEEL_LEVELS 10

struct bt_timer {
    struct bt_timer *prev, *next; // next NULL: not armed
    uint64_t tick;
    uint8_t level, slot;
    uint8_t kind; // the owner's: which of its timers this is
};

struct bt_wheel {
    uint64_t tick;                      // last tick processed
    uint64_t occupied[BT_WHEEL_LEVELS]; // one bit a slot
    uint32_t levels;                    // one bit a level that has a slot set
    struct bt_timer *slots[BT_WHEEL_LEVELS][1 << BT_WHEEL_BITS];
    uint32_t armed;
};

typedef void (*bt_wheel_cb)(void *arg, struct bt_timer *t);

void bt_wheel_init(struct bt_wheel *w, uint64_t now_ns);

static inline bool bt_timer_armed(const struct bt_timer *t)
{
    return t->next != NULL;
}

// Arms t for deadline_ns (absolute); re-arms it when it is armed already. A
// deadline in the past fires at the next tick, never inside this call.
void bt_wheel_add(struct bt_wheel *w, struct bt_timer *t, uint64_t deadline_ns);

// Disarms; harmless on a zeroed or unarmed timer.
void bt_wheel_del(struct bt_wheel *w, struct bt_timer *t);

// Calls cb once for every timer due at now_ns, in order of deadline; the timer
// is disarmed before the call, and cb may add and delete any timer.
void bt_wheel_advance(struct bt_wheel *w, uint64_t now_ns, bt_wheel_cb cb, void *arg);

// When to call advance next: never later than the earliest deadline plus a
// tick; sometimes earlier (a level must be unfolded). UINT64_MAX: nothing armed.
static inline uint64_t bt_wheel_next(const struct bt_wheel *w)
{
    if (w->levels == 0) {
        return UINT64_MAX;
    }
    unsigned level = (unsigned)__builtin_ctz(w->levels), shift = level * BT_WHEEL_BITS;
    uint64_t slot = (uint64_t)__builtin_ctzll(w->occupied[level]);
    uint64_t above = ~(uint64_t)0 << shift << BT_WHEEL_BITS; // the last level's shift is 54: stays below 64
    return ((w->tick & above) | (slot << shift)) << BT_WHEEL_SHIFT;
}

#endif
