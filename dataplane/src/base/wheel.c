// SPDX-License-Identifier: Apache-2.0
// A timer sits at the level of the highest 6-bit group in which its tick
// differs from the wheel's. So every timer of a lower level is due before any
// of a higher one, and the next event is the first bit of the first level set.
#include "base/wheel.h"

#include <string.h>

#define SLOT_MASK ((1u << BT_WHEEL_BITS) - 1)
#define TICK_MAX  (UINT64_MAX >> BT_WHEEL_SHIFT)

void bt_wheel_init(struct bt_wheel *w, uint64_t now_ns)
{
    memset(w, 0, sizeof *w);
    w->tick = now_ns >> BT_WHEEL_SHIFT;
}

// Slots are circular lists without sentinel; slots[][] names the oldest timer.
static void slot_append(struct bt_wheel *w, struct bt_timer *t)
{
    struct bt_timer **head = &w->slots[t->level][t->slot];
    if (!*head) {
        t->prev = t->next = t;
        *head = t;
        w->occupied[t->level] |= 1ull << t->slot;
        w->levels |= 1u << t->level;
    } else {
        t->next = *head;
        t->prev = (*head)->prev;
        t->prev->next = t;
        (*head)->prev = t;
    }
}

static void slot_remove(struct bt_wheel *w, struct bt_timer *t)
{
    struct bt_timer **head = &w->slots[t->level][t->slot];
    if (t->next == t) {
        *head = NULL;
        w->occupied[t->level] &= ~(1ull << t->slot);
        if (w->occupied[t->level] == 0) {
            w->levels &= ~(1u << t->level);
        }
    } else {
        t->prev->next = t->next;
        t->next->prev = t->prev;
        if (*head == t) {
            *head = t->next;
        }
    }
    t->prev = t->next = NULL;
}

// Precondition: t->tick > w->tick.
static void place(struct bt_wheel *w, struct bt_timer *t)
{
    unsigned top = 63u - (unsigned)__builtin_clzll(t->tick ^ w->tick);
    static const uint8_t level_of[64] = {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3,
                                         3, 3, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 6, 6, 6, 6, 6, 6, 7, 7,
                                         7, 7, 7, 7, 8, 8, 8, 8, 8, 8, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9};
    t->level = level_of[top];
    t->slot = (uint8_t)((t->tick >> (t->level * BT_WHEEL_BITS)) & SLOT_MASK);
    slot_append(w, t);
}

void bt_wheel_add(struct bt_wheel *w, struct bt_timer *t, uint64_t deadline_ns)
{
    bt_wheel_del(w, t);
    uint64_t tick = deadline_ns >> BT_WHEEL_SHIFT;
    if (tick < TICK_MAX && (deadline_ns & ((1u << BT_WHEEL_SHIFT) - 1))) {
        tick++;
    }
    t->tick = tick > w->tick ? tick : w->tick + 1;
    place(w, t);
    w->armed++;
}

void bt_wheel_del(struct bt_wheel *w, struct bt_timer *t)
{
    if (!bt_timer_armed(t)) {
        return;
    }
    slot_remove(w, t);
    w->armed--;
}

// Moves the timers of one upper slot down; those due right now are fired.
static void unfold(struct bt_wheel *w, unsigned level, bt_wheel_cb cb, void *arg)
{
    unsigned slot = (unsigned)(w->tick >> (level * BT_WHEEL_BITS)) & SLOT_MASK;
    struct bt_timer **head = &w->slots[level][slot];
    // Pass 1: everything later than now goes to a lower level. What is due
    // stays, so that a callback may still delete it.
    struct bt_timer *t = *head, *last = t->prev, *next;
    for (bool more = true; more; t = next) {
        more = t != last;
        next = t->next;
        if (t->tick > w->tick) {
            slot_remove(w, t);
            place(w, t);
        }
    }
    while ((t = *head)) {
        slot_remove(w, t);
        w->armed--;
        cb(arg, t);
    }
}

void bt_wheel_advance(struct bt_wheel *w, uint64_t now_ns, bt_wheel_cb cb, void *arg)
{
    uint64_t target = now_ns >> BT_WHEEL_SHIFT, next;
    // An empty wheel says UINT64_MAX, which is no tick: the highest is TICK_MAX.
    while ((next = bt_wheel_next(w)) != UINT64_MAX && next >> BT_WHEEL_SHIFT <= target) {
        unsigned level = (unsigned)__builtin_ctz(w->levels);
        uint64_t tick = next >> BT_WHEEL_SHIFT;
        w->tick = tick;
        if (level > 0) {
            unfold(w, level, cb, arg);
            continue;
        }
        struct bt_timer **head = &w->slots[0][tick & SLOT_MASK], *t;
        while ((t = *head)) {
            slot_remove(w, t);
            w->armed--;
            cb(arg, t);
        }
    }
    if (target > w->tick) {
        w->tick = target;
    }
}
