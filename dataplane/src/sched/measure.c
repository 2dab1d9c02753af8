// SPDX-License-Identifier: Apache-2.0
// See measure.h. The factors are ours: the source leaves them open.
#include "sched/measure.h"

static const double factor[BT_SPEEDS] = {0.5, 0.25, 0.05};

void bt_meter_turn(struct bt_meter *m, uint64_t queued, uint64_t busy_ns, uint64_t idle_ns)
{
    if (queued != 0 || busy_ns != 0) {
        m->turns++;
        m->queued += queued;
    }
    m->busy_ns += busy_ns;
    m->idle_ns += idle_ns;
}

static void smooth(double *value, double now, double a, bool any)
{
    *value = any ? a * now + (1.0 - a) * *value : now;
}

void bt_measure_take(struct bt_measure *m, struct bt_meter *interval)
{
    uint64_t all = interval->busy_ns + interval->idle_ns;
    double turns = (double)interval->turns;
    if (all == 0) {
        return;
    }
    for (int i = 0; i < BT_SPEEDS; i++) {
        smooth(&m->queue[i], interval->turns != 0 ? (double)interval->queued / turns : 0, factor[i], m->any);
        smooth(&m->turn_ns[i], interval->turns != 0 ? (double)interval->busy_ns / turns : 0, factor[i], m->any);
        smooth(&m->idle[i], (double)interval->idle_ns / (double)all, factor[i], m->any);
    }
    m->any = true;
    *interval = (struct bt_meter){0};
}

double bt_measure_delay_ns(const struct bt_measure *m, enum bt_speed speed, uint32_t batch)
{
    double batches = m->queue[speed] / batch;
    double whole = (double)(uint64_t)batches;
    return (whole < batches ? whole + 1.0 : whole) * m->turn_ns[speed];
}
