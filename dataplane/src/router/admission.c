// SPDX-License-Identifier: Apache-2.0
// Configuration, the dice, and what is counted. The loop is in admission_loop.c.
#include "router/admission.h"

#include <string.h>

#define SLO_MOST  UINT64_C(100000000000) /* 100 s: where histograms end */
#define P_LEAST   50000u                 /* p50 */
#define P_MOST    99990u                 /* p99.99: 100,000 samples a decision */
#define FROZEN_NS UINT64_C(1000000000)   /* */
#define DECAY_NS  UINT64_C(1000000000)

void bt_admission_init(struct bt_admission *a, uint64_t seed, struct bt_hist *by_class)
{
    memset(a, 0, sizeof *a);
    bt_rng_seed(&a->rng, seed);
    a->by_class = by_class;
}

const char *bt_admission_judge(const struct bt_admission_config *c, unsigned *field)
{
    *field = 0;
    if ((unsigned)c->mode >= BT_ADMISSION_MODES) {
        return "must be Observe, Reject or Degrade";
    }
    if (c->mode == BT_ADMISSION_OBSERVE) {
        return NULL;
    }
    *field = 1;
    if ((unsigned)c->controller >= BT_CONTROLLERS) {
        return "must be Track or AIAD";
    }
    *field = 2;
    if (c->slo_ns < 1000 || c->slo_ns > SLO_MOST) {
        return "must be 1..100000000";
    }
    *field = 3;
    if (c->per_100k < P_LEAST || c->per_100k > P_MOST) {
        return "must be 50000..99990";
    }
    return NULL;
}

/* places the droppable classes one behind the other. */
static void order_classes(struct bt_admission *a)
{
    a->top = 0;
    for (unsigned c = 0; c < BT_ADMISSION_CLASSES; c++) {
        bool droppable = ((unsigned)a->config.droppable >> c & 1u) != 0;
        a->offset[c] = droppable ? a->top : UINT32_MAX;
        a->top += droppable ? BT_ADMISSION_MOST : 0u;
    }
}

static bool same(const struct bt_admission_config *x, const struct bt_admission_config *y)
{
    return x->mode == y->mode && x->controller == y->controller && x->slo_ns == y->slo_ns &&
           x->per_100k == y->per_100k && x->droppable == y->droppable;
}

void bt_admission_apply(struct bt_admission *a, const struct bt_admission_config *config, uint64_t now)
{
    if (same(&a->config, config)) {
        return;
    }
    a->config = *config;
    order_classes(a);
    a->state = (struct bt_admission_state){.admit = 1, .share = -1};
    atomic_store_explicit(&a->level, 0, memory_order_relaxed);
    atomic_store_explicit(&a->keeps_busy, bt_admission_may_spare(a), memory_order_relaxed);
    atomic_store_explicit(&a->steered_at, now, memory_order_relaxed);
    a->next = now; /* the first look begins a window */
    a->began = UINT64_MAX;
}

uint32_t bt_admission_share(const struct bt_admission *a, uint32_t level, unsigned class)
{
    if (level <= a->offset[class]) {
        return 0;
    }
    uint32_t share = level - a->offset[class];
    return share < BT_ADMISSION_MOST ? share : BT_ADMISSION_MOST;
}

uint32_t bt_admission_level(const struct bt_admission *a, uint64_t now)
{
    uint32_t level = atomic_load_explicit(&a->level, memory_order_relaxed);
    uint64_t at = atomic_load_explicit(&a->steered_at, memory_order_relaxed);
    uint64_t opens = at + BT_ADMISSION_STALLED_NS + FROZEN_NS;
    if (now < opens) {
        return level;
    }
    uint64_t past = now - opens;
    return past < DECAY_NS ? (uint32_t)((uint64_t)level * ((DECAY_NS - past) >> 10) / (DECAY_NS >> 10)) : 0;
}

static void count(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1u, memory_order_relaxed);
}

bool bt_admission_refuse(struct bt_admission *a, uint64_t now, unsigned class, bool spared)
{
    count(&a->arrived[class]);
    uint32_t share = bt_admission_share(a, bt_admission_level(a, now), class);
    if (share == 0 || spared || bt_rng_below(&a->rng, BT_ADMISSION_ONE) >= share) {
        return false;
    }
    count(&a->refused[class]);
    return true;
}

static struct bt_hist *histogram_of(struct bt_admission *a, unsigned class, bool marked)
{
    return a->by_class != NULL ? &a->by_class[marked ? BT_ADMISSION_CLASSES : class] : NULL;
}

void bt_admission_served(struct bt_admission *a, unsigned class, bool marked, uint64_t latency_ns)
{
    bt_hist_record(&a->window, latency_ns);
    a->completed++;
    if (latency_ns <= a->config.slo_ns) {
        a->within[class]++;
    } else {
        a->exceeded[class]++;
    }
    struct bt_hist *h = histogram_of(a, class, marked);
    if (h != NULL) {
        bt_hist_record(h, latency_ns);
    }
}

void bt_admission_dropped(struct bt_admission *a)
{
    a->dropped++;
    a->completed++;
}

void bt_admission_unknown(struct bt_admission *a)
{
    a->unknown++;
    a->completed++;
}

void bt_admission_overdue(struct bt_admission *a, unsigned class, bool marked)
{
    bt_hist_record_inf(&a->window, 1);
    a->exceeded[class]++;
    struct bt_hist *h = histogram_of(a, class, marked);
    if (h != NULL) {
        bt_hist_record_inf(h, 1);
    }
}

void bt_admission_class_stats(const struct bt_admission *a, uint64_t now, unsigned class,
                              struct bt_admission_class_stats *out)
{
    *out = (struct bt_admission_class_stats){
        .arrived = atomic_load_explicit(&a->arrived[class], memory_order_relaxed),
        .refused = atomic_load_explicit(&a->refused[class], memory_order_relaxed),
        .within = a->within[class],
        .exceeded = a->exceeded[class],
        .share = bt_admission_on(a) ? bt_admission_share(a, bt_admission_level(a, now), class) : 0,
    };
}
