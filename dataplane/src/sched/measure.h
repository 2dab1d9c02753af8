// SPDX-License-Identifier: Apache-2.0
// What a core measures of itself (Z-14): depth of the queue at its network, time of a turn, share of idle time, over
// intervals of some 10 ms, smoothed at three speeds at once.
#ifndef BT_SCHED_MEASURE_H
#define BT_SCHED_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

// Fast drives steps up, slow steps down.
enum bt_speed { BT_SPEED_FAST, BT_SPEED_MIDDLE, BT_SPEED_SLOW, BT_SPEEDS };

// One interval being counted.
struct bt_meter {
    uint64_t turns, queued; // turns that found something, and what was queued then, summed
    uint64_t busy_ns, idle_ns;
};

// A turn of the loop: `queued` packets were there when it began; 0 with busy_ns 0: an idle one.
void bt_meter_turn(struct bt_meter *m, uint64_t queued, uint64_t busy_ns, uint64_t idle_ns);

struct bt_measure {
    double queue[BT_SPEEDS], turn_ns[BT_SPEEDS], idle[BT_SPEEDS]; // idle: share of the interval
    bool any;
};

// Takes the interval in and begins a new one. An interval without any time says nothing.
void bt_measure_take(struct bt_measure *m, struct bt_meter *interval);
// The longest a packet that arrives now waits: ceil(Q ÷ B) turns. batch >= 1.
double bt_measure_delay_ns(const struct bt_measure *m, enum bt_speed speed, uint32_t batch);

#endif
