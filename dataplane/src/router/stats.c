// SPDX-License-Identifier: Apache-2.0
// Names of the counters, and the gauges and rows computed when somebody asks.
#include "router/stats.h"

#include <string.h>

#include "router/feature.h"
#include "router/workers.h"

#define DROPPED(name, why) [BT_RC_DROP_##name] = {"router_dropped_total", "reason", why},
#define PAIRS(what)        {"router_pairs_total", "result", what}
#define WORKERS(what)      {"router_worker_events_total", "event", what}
#define HEDGES(what)       {"router_hedges_total", "result", what}
#define FEEDBACK(what)     {"router_feedback_total", "kind", what}

const struct bt_counter_desc bt_router_counter_descs[BT_ROUTER_COUNTERS] = {
    [BT_RC_REQUESTS] = {"router_requests_total", NULL, NULL},
    [BT_RC_FORWARDED] = {"router_forwarded_total", NULL, NULL},
    [BT_RC_FORWARDED_STICKY] = {"router_forwarded_sticky_total", NULL, NULL},
    [BT_RC_FORWARDED_LEGACY] = {"router_forwarded_legacy_total", NULL, NULL},
    [BT_RC_FORWARDED_BARE] = {"router_forwarded_unmarked_total", NULL, NULL},
    [BT_RC_HELD] = {"router_held_total", "reason", "no_credit"},
    [BT_RC_HELD_BACK] = {"router_held_total", "reason", "hold_back"},
    [BT_RC_DEGRADED] = {"router_degraded_total", "result", "marked"},
    [BT_RC_DEGRADE_NO_ROOM] = {"router_degraded_total", "result", "no_room"},
    [BT_RC_FEEDBACK] = FEEDBACK("applied"),
    [BT_RC_FEEDBACK_STALE] = FEEDBACK("stale"),
    [BT_RC_FEEDBACK_LEGACY] = {"router_feedback_legacy_total", NULL, NULL},
    [BT_RC_JOINED] = WORKERS("joined"),
    [BT_RC_LEFT] = WORKERS("left"),
    [BT_RC_RESTARTED] = WORKERS("restarted"),
    [BT_RC_FORGOTTEN] = WORKERS("forgotten"),
    [BT_RC_SUSPECTED] = WORKERS("suspected"),
    [BT_RC_READMITTED] = WORKERS("readmitted"),
    [BT_RC_UNREACHABLE] = WORKERS("unreachable"),
    [BT_RC_UNREACHABLE_BEHIND] = WORKERS("unreachable_not_seen"),
    [BT_RC_EJECTED] = WORKERS("ejected"),
    [BT_RC_EJECTION_SPARED] = WORKERS("ejection_spared"),
    [BT_RC_CREDITS_RECLAIMED] = {"router_credits_reclaimed_total", NULL, NULL},
    [BT_RC_CREDITS_LOST] = {"router_requests_lost_total", NULL, NULL},
    [BT_RC_CREDIT_RESCANS] = {"router_credit_rescans_total", NULL, NULL},
    [BT_RC_PAIRS_FINISHED] = PAIRS("finished"),
    [BT_RC_PAIRS_REJECTED] = PAIRS("rejected"),
    [BT_RC_PAIRS_UNANSWERED] = PAIRS("unanswered"),
    [BT_RC_PAIRS_FULL] = PAIRS("not_watched"),
    [BT_RC_PAIRS_UNKNOWN] = PAIRS("unknown"),
    [BT_RC_PAIRS_OVERDUE] = PAIRS("overdue"),
    [BT_RC_PAIRS_UNSEEN] = PAIRS("unseen"),
    [BT_RC_PAIRS_BEHIND] = PAIRS("thread_behind"),
    [BT_RC_HEDGES_SENT] = HEDGES("sent"),
    [BT_RC_HEDGES_NO_IDLE] = HEDGES("no_idle_worker"),
    [BT_RC_HEDGES_BUSY] = HEDGES("busy"),
    [BT_RC_HEDGES_BUDGET] = HEDGES("budget"),
    [BT_RC_HEDGES_NO_BUFFER] = HEDGES("no_buffer"),
    [BT_RC_HEDGES_NO_ROOM] = HEDGES("no_room"),
    [BT_RC_HEDGES_UNSUITED] = HEDGES("unsuited"),
    [BT_RC_HEDGES_WON] = {"router_hedge_completions_total", "result", "won"},
    [BT_RC_HEDGES_LATE] = {"router_hedge_completions_total", "result", "late"},
    [BT_RC_CANCELS_SENT] = {"router_cancels_total", "result", "sent"},
    [BT_RC_CANCELS_HONOURED] = {"router_cancels_total", "result", "honoured"},
    [BT_RC_CANCELS_TOO_LATE] = {"router_cancels_total", "result", "too_late"},
    [BT_RC_CANCELS_UNHEARD] = {"router_cancels_total", "result", "unheard"},
    [BT_RC_CANCELS_NO_BUFFER] = {"router_cancels_total", "result", "no_buffer"},
    [BT_RC_PREEMPTIONS] = {"router_preemptions_total", NULL, NULL},
    [BT_RC_CONFIGS_APPLIED] = {"router_configs_total", "result", "applied"},
    [BT_RC_CONFIGS_REFUSED] = {"router_configs_total", "result", "refused"},
    BT_ROUTER_DROP_TABLE(DROPPED)};

static void count_workers(const struct bt_router *r, struct bt_router_stats *out)
{
    out->members = r->order_n;
    for (uint32_t w = 0; w < r->used_end; w++) {
        unsigned flags = r->worker[w].flags;
        if ((flags & WORKER_USED) == 0) {
            continue;
        }
        out->outstanding += router_outstanding(r, w);
        if ((flags & WORKER_ALLOWED) == 0) {
            out->draining++;
            continue;
        }
        out->joined += (flags & WORKER_JOINED) != 0 ? 1u : 0u;
        out->suspect += (flags & WORKER_SUSPECT) != 0 ? 1u : 0u;
        out->ejected += (flags & WORKER_EJECTED) != 0 ? 1u : 0u;
        out->eligible += router_may_receive(r, w) ? 1u : 0u;
    }
}

void router_stats(const struct bt_router *r, uint64_t now, struct bt_router_stats *out)
{
    memset(out, 0, sizeof *out);
    memcpy(out->counter, r->counter, sizeof out->counter);
    memcpy(out->malformed, r->malformed, sizeof out->malformed);
    out->held = r->held.n;
    out->held_limit = r->central_limit;
    if (r->held.n > 0 && now > r->held.head->t_rx_ns) {
        out->oldest_held_ns = now - r->held.head->t_rx_ns;
    }
    out->pairs = r->pairs.count;
    out->router_draining = r->draining;
    count_workers(r, out);
    for (unsigned i = 0; i < ROUTER_FEATURES; i++) {
        router_features[i]->tell(r, now, out);
    }
}

bool router_member(const struct bt_router *r, uint64_t now, uint32_t i, struct bt_router_member_stats *out)
{
    if (i >= r->order_n) {
        return false;
    }
    uint32_t w = r->order[i];
    const struct worker *worker = &r->worker[w];
    const struct bt_credit *credit = &r->credit[w];
    unsigned flags = worker->flags;
    uint64_t sent = router_sent(r, w), owed = router_outstanding(r, w);
    uint64_t lost = credit->known ? bt_credit_lost(credit) : 0;
    uint64_t done = bt_credit_settled(credit) - (credit->known ? lost : credit->reclaimed);
    *out = (struct bt_router_member_stats){
        .addr = worker->addr,
        .joined = (flags & WORKER_JOINED) != 0,
        .eligible = router_may_receive(r, w),
        .suspect = (flags & WORKER_SUSPECT) != 0,
        .ejected = (flags & WORKER_EJECTED) != 0,
        .leaving = (flags & WORKER_LEAVING) != 0,
        .legacy = (flags & WORKER_EXTENDED) == 0,
        .n = worker->n < r->depth ? worker->n : r->depth,
        .outstanding = owed < UINT32_MAX ? (uint32_t)owed : UINT32_MAX,
        .sent = sent,
        .done = done,
        .lost = lost,
        .reclaimed = credit->reclaimed,
        .incarnation = credit->incarnation,
        .feedback_age_ns = worker->heard_at == 0    ? UINT64_MAX
                           : now > worker->heard_at ? now - worker->heard_at
                                                    : 0,
    };
    return true;
}
