// SPDX-License-Identifier: Apache-2.0
// The door of the router (router.h): the same calls for one thread and for two. Which it is, is asked once a burst.
#include "router/router.h"

#include "router/config.h"
#include "router/core.h"
#include "router/feedback.h"
#include "router/request.h"
#include "router/split.h"
#include "router/split_feedback.h"
#include "router/split_request.h"
#include "router/stats.h"

/* Is it on two threads? Then r is its REQ0 half. */
static inline bool is_split(const struct bt_router *r)
{
    return __builtin_expect(r->split != NULL, 0);
}

/* The core that takes FEEDBACK. */
static const struct bt_router *hearing(const struct bt_router *r)
{
    return is_split(r) ? split_feedback_half(r->split) : r;
}

/* --- building ---------------------------------------------------------------------------------------------------- */

size_t bt_router_bytes(const struct bt_router_setup *setup)
{
    if (setup->threads > 2) {
        return 0;
    }
    return setup->threads == 2 ? split_bytes(setup) : router_core_bytes(setup);
}

struct bt_router *bt_router_init(void *mem, size_t bytes, const struct bt_router_setup *setup, uint64_t now)
{
    if (setup->threads > 2) {
        return NULL;
    }
    return setup->threads == 2 ? split_init(mem, bytes, setup, now) : router_core_init(mem, bytes, setup, now);
}

/* --- the thread that takes requests ------------------------------------------------------------------------------ */

void bt_router_requests(struct bt_router *r, struct bt_pkt *const *pkts, unsigned n, struct bt_txq *txq)
{
    if (is_split(r)) {
        split_requests(r->split, pkts, n, txq);
    } else {
        router_requests(r, pkts, n, txq);
    }
}

/* Not inlined: whose address is taken stands on the stack, which one thread does without. */
__attribute__((noinline)) static void hand_request(struct bt_router *r, struct bt_pkt *pkt, struct bt_txq *txq)
{
    bt_router_requests(r, &pkt, 1, txq);
}

void bt_router_request(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_txq *txq)
{
    if (is_split(r)) {
        hand_request(r, pkt, txq);
    } else {
        router_request(r, now, pkt, txq);
    }
}

void bt_router_tick(struct bt_router *r, uint64_t now, struct bt_txq *txq)
{
    if (is_split(r)) {
        split_request_tick(r->split, now, txq);
    } else {
        router_core_tick(r, now, txq);
    }
}

uint64_t bt_router_next(const struct bt_router *r)
{
    return router_core_next(r);
}

void bt_router_unreachable(struct bt_router *r, uint64_t now, const struct bt_addr *worker)
{
    if (is_split(r)) {
        split_unreachable(r->split, now, worker);
    } else {
        router_core_unreachable(r, now, worker);
    }
}

bool bt_router_credit_waits(const struct bt_router *r)
{
    return is_split(r) && split_credit_waits(r->split);
}

bool bt_router_notes_pile_up(const struct bt_router *r)
{
    return is_split(r) && split_notes_pile_up(r->split);
}

bool bt_router_holds(const struct bt_router *r)
{
    return r->held.n != 0;
}

bool bt_router_notes_requests(const struct bt_router *r)
{
    return r->noted;
}

void bt_router_drain(struct bt_router *r, uint64_t now)
{
    if (!r->draining) {
        r->draining = true;
        r->drain_since = router_clock(r, now);
    }
}

bool bt_router_draining(const struct bt_router *r)
{
    return r->draining;
}

bool bt_router_drained(const struct bt_router *r, uint64_t now, uint64_t quiet_ns)
{
    uint64_t since = r->last_request_at > r->drain_since ? r->last_request_at : r->drain_since;
    return r->draining && r->held.n == 0 && now >= since && now - since >= quiet_ns;
}

void bt_router_discard_held(struct bt_router *r)
{
    struct bt_pkt *pkt;
    while ((pkt = bt_txq_pop(&r->held)) != NULL) {
        bt_pool_put(r->pool, pkt);
    }
}

/* --- the thread that takes FEEDBACK ------------------------------------------------------------------------------ */

void bt_router_feedbacks(struct bt_router *r, struct bt_pkt *const *pkts, unsigned n, struct bt_txq *txq)
{
    if (is_split(r)) {
        split_feedbacks(r->split, pkts, n);
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        router_feedback(r, pkts[i]->t_rx_ns, pkts[i], txq);
    }
}

/* Not inlined, as hand_request. */
__attribute__((noinline)) static void hand_feedback(struct bt_router *r, struct bt_pkt *pkt)
{
    bt_router_feedbacks(r, &pkt, 1, NULL);
}

void bt_router_feedback(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_txq *txq)
{
    if (is_split(r)) {
        hand_feedback(r, pkt);
    } else {
        router_feedback(r, now, pkt, txq);
    }
}

void bt_router_feedback_tick(struct bt_router *r, uint64_t now)
{
    if (is_split(r)) {
        split_feedback_tick(r->split, now);
    }
}

uint64_t bt_router_feedback_next(const struct bt_router *r)
{
    return is_split(r) ? router_core_next(split_feedback_half(r->split)) : UINT64_MAX;
}

/* --- both stopped ------------------------------------------------------------------------------------------------ */

bool bt_router_apply(struct bt_router *r, uint64_t now, const struct bt_router_config *config,
                     struct bt_router_refusal *why)
{
    return is_split(r) ? split_apply(r->split, now, config, why) : router_apply(r, now, config, why);
}

void bt_router_read_stats(const struct bt_router *r, uint64_t now, struct bt_router_stats *out)
{
    if (is_split(r)) {
        split_stats(r->split, now, out);
    } else {
        router_stats(r, now, out);
    }
}

bool bt_router_member(const struct bt_router *r, uint64_t now, uint32_t i, struct bt_router_member_stats *out)
{
    return router_member(hearing(r), now, i, out);
}

bool bt_router_member_decided(const struct bt_router *r, uint64_t now, uint32_t i, struct bt_router_member_stats *out)
{
    return router_member(r, now, i, out);
}

const struct bt_hist_slices *bt_router_latency(const struct bt_router *r)
{
    return hearing(r)->latency;
}

const struct bt_hist *bt_router_class_latency(const struct bt_router *r, unsigned class)
{
    const struct bt_hist *all = hearing(r)->class_latency;
    return all != NULL && class <= BT_ADMISSION_CLASSES ? &all[class] : NULL;
}

const struct bt_hist_slices *bt_router_hold(const struct bt_router *r)
{
    return r->hold;
}
