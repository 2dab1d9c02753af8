// SPDX-License-Identifier: Apache-2.0
// See ladder.h.
#include "sched/ladder.h"

#include <stddef.h>

#define SECOND_THREAD 1.3

struct made {
    struct bt_rung *out;
    uint32_t n, max;
};

static void add(struct made *l, struct bt_rung r)
{
    if (l->n < l->max) {
        l->out[l->n] = r;
    }
    l->n++;
}

static bool sound(const struct bt_machine *m)
{
    return m->cores >= 1 && m->smt >= 1 && m->smt <= 2 && m->mhz_least >= 1 && m->mhz_least <= m->mhz_nominal &&
           (m->mhz_turbo == 0 || m->mhz_turbo > m->mhz_nominal);
}

static void energy(struct made *l, const struct bt_machine *m)
{
    uint32_t mhz = m->mhz_step != 0 ? m->mhz_least : m->mhz_nominal;
    for (uint32_t c = 1; c <= m->cores; c++) {
        add(l, (struct bt_rung){.cores = c, .smt = 1, .mhz = mhz, .background = m->cores - c});
    }
    if (m->smt == 2) {
        add(l, (struct bt_rung){.cores = m->cores, .smt = 2, .mhz = mhz});
    }
    while (mhz < m->mhz_nominal && l->n <= l->max) {
        mhz = m->mhz_nominal - mhz > m->mhz_step ? mhz + m->mhz_step : m->mhz_nominal;
        add(l, (struct bt_rung){.cores = m->cores, .smt = m->smt, .mhz = mhz});
    }
}

static void consolidation(struct made *l, const struct bt_machine *m)
{
    for (uint32_t c = 1; c <= m->cores; c++) {
        add(l, (struct bt_rung){.cores = c, .smt = m->smt, .mhz = m->mhz_nominal, .background = m->cores - c});
    }
}

uint32_t bt_ladder(const struct bt_machine *m, enum bt_objective objective, struct bt_rung *out, uint32_t max)
{
    struct made l = {.out = out, .max = max};
    if (!sound(m)) {
        return 0;
    }
    if (objective == BT_OBJECTIVE_ENERGY) {
        energy(&l, m);
    } else {
        consolidation(&l, m);
    }
    if (m->mhz_turbo != 0) {
        add(&l, (struct bt_rung){.cores = m->cores, .smt = m->smt, .mhz = m->mhz_turbo, .turbo = true});
    }
    return l.n <= max ? l.n : 0;
}

double bt_rung_capacity(const struct bt_rung *r)
{
    return r->cores * (r->smt == 2 ? SECOND_THREAD : 1.0) * r->mhz;
}
