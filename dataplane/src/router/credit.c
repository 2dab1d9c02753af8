// SPDX-License-Identifier: Apache-2.0
// Credit accounting from absolute counters (see credit.h).
//
// lost is bounded from both sides. At most sent − received can be lost: what was neither received nor lost is on its
// way. At least "sent T_loss ago − received" are; received also counts younger requests, so those known to be
// young, because their FEEDBACK came, are left out of it. The bound found once stays until the other one overrules it:
// without that, one lost request would hide again behind every later one that arrives, and its credit with it.
#include "router/credit.h"

static inline void settle_reported(struct bt_credit *c, uint64_t lost)
{
    c->shift = lost - c->base;
}

/* Serial arithmetic: a is older than b even when the counters wrapped. */
static inline bool older(uint64_t a, uint64_t b)
{
    return (int64_t)(a - b) < 0;
}

/* takes the worker's word for its backlog. What the router sent before is its history no longer. */
static void start_incarnation(struct bt_credit *c, const struct bt_credit_report *report, uint64_t sent, uint64_t now,
                              uint64_t loss_ns)
{
    c->known = true;
    c->incarnation = report->incarnation;
    c->base = report->received - sent;
    c->past = sent;
    c->recent = sent;
    c->young = 0;
    c->young_before = 0;
    c->young_past = 0;
    c->first = 0;
    c->samples = 0;
    c->next_sample_at = now + (loss_ns >> 3);
    c->served = report->served;
    settle_reported(c, 0);
}

/* Until then bt_credit_in_order need not call look_back: neither sample nor history is due. */
static void look_later(struct bt_credit *c, uint64_t loss_ns)
{
    uint64_t oldest = c->samples > 0 ? c->history[c->first].at + loss_ns : UINT64_MAX;
    c->look_at = oldest < c->next_sample_at ? oldest : c->next_sample_at;
}

/* A new sample is the newest from now on; what was finished since the last one is written down. */
static void begin_sample(struct bt_credit *c, uint64_t sent, uint64_t now)
{
    uint32_t ended = c->young - c->young_before;
    if (c->samples > 0) {
        c->history[(c->first + c->samples - 1u) % BT_CREDIT_SAMPLES].young = ended;
    } else {
        c->young_past = ended;
    }
    c->young_before = c->young;
    c->recent = sent;
    uint32_t at = (c->first + c->samples) % BT_CREDIT_SAMPLES;
    c->history[at].at = now;
    c->history[at].sent = sent;
    c->samples++;
}

/* Moves past up to the newest sample that is at least loss_ns old, and takes a new sample when one is due. */
static void look_back(struct bt_credit *c, uint64_t sent, uint64_t now, uint64_t loss_ns)
{
    while (c->samples > 0 && c->history[c->first].at + loss_ns <= now) {
        c->past = c->history[c->first].sent;
        c->young -= c->young_past;
        c->young_before -= c->young_past;
        c->young_past = c->samples > 1 ? (uint32_t)c->history[c->first].young : 0;
        c->first = (uint8_t)((c->first + 1u) % BT_CREDIT_SAMPLES);
        c->samples--;
    }
    if (now < c->next_sample_at || c->samples == BT_CREDIT_SAMPLES) {
        return;
    }
    begin_sample(c, sent, now);
    c->next_sample_at = now + (loss_ns >> 3);
}

static enum bt_credit_verdict judge_report(const struct bt_credit *c, const struct bt_credit_report *report)
{
    if (older(report->received, report->served)) {
        return BT_CREDIT_BACKWARDS;
    }
    if (!c->known) {
        return BT_CREDIT_RESTARTED;
    }
    if (report->incarnation != c->incarnation) {
        bool newer = (int32_t)(report->incarnation - c->incarnation) > 0 || report->silent;
        return newer ? BT_CREDIT_RESTARTED : BT_CREDIT_BACKWARDS;
    }
    bool less_received = older(report->received, c->received);
    bool less_served = older(report->served, c->served);
    if (!less_received && !less_served) {
        return BT_CREDIT_FRESH;
    }
    /* An honest old message is not newer in either counter. */
    bool more = older(c->received, report->received) || older(c->served, report->served);
    return more ? BT_CREDIT_BACKWARDS : BT_CREDIT_STALE;
}

enum bt_credit_verdict bt_credit_report(struct bt_credit *c, const struct bt_credit_report *report, uint64_t sent,
                                        uint64_t now, uint64_t loss_ns)
{
    enum bt_credit_verdict verdict = judge_report(c, report);
    if (verdict == BT_CREDIT_STALE || verdict == BT_CREDIT_BACKWARDS) {
        return verdict;
    }
    if (verdict == BT_CREDIT_RESTARTED) {
        start_incarnation(c, report, sent, now, loss_ns);
    }
    look_back(c, sent, now, loss_ns);
    look_later(c, loss_ns);
    uint64_t lost = bt_credit_lost(c);
    c->received = report->received;
    c->served = report->served;
    if (older(sent + c->base, report->received)) {
        /* It received what we forgot at a restart, or a copy the network made: both will be served, so count them. */
        c->base = report->received - sent;
    }
    settle_reported(c, lost);
    return verdict;
}

void bt_credit_finished_before(struct bt_credit *c, uint64_t index)
{
    if (older(index, c->past)) {
        return;
    }
    c->young++;
    c->young_before++;
    for (uint32_t i = c->samples; i-- > 1;) {
        uint32_t at = (c->first + i - 1u) % BT_CREDIT_SAMPLES;
        if (!older(index, c->history[at].sent)) {
            c->history[at].young++;
            return;
        }
    }
    c->young_past++;
}

void bt_credit_settle(struct bt_credit *c, uint64_t sent)
{
    int64_t lost = (int64_t)bt_credit_lost(c);
    int64_t at_least = (int64_t)(c->past + c->base + c->young - c->received);
    int64_t at_most = (int64_t)(sent + c->base - c->received);
    lost = at_least > lost ? at_least : lost;
    lost = lost > at_most ? at_most : lost;
    settle_reported(c, (uint64_t)lost);
}

void bt_credit_legacy(struct bt_credit *c, uint64_t sent)
{
    if (bt_credit_outstanding(sent, bt_credit_settled(c)) != 0) {
        c->shift++;
    }
}

uint64_t bt_credit_reclaim(struct bt_credit *c, uint64_t sent, uint64_t most)
{
    uint64_t owed = bt_credit_outstanding(sent, bt_credit_settled(c));
    uint64_t back = owed < most ? owed : most;
    c->shift += back;
    c->reclaimed += back;
    return back;
}

void bt_credit_write_off(struct bt_credit *c, uint64_t sent)
{
    bt_credit_put_settled(c, sent);
    bt_credit_look_again(c);
}
