// SPDX-License-Identifier: Apache-2.0
// The loan: when it is given, how it ends, and the notes in between (see fast.h).
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "fast/fast_internal.h"

// So long the program decides without a sign of life of the router.
#define LEASE_NS UINT64_C(250000000)
// So often the router looks at what was written down.
#define READ_NS UINT64_C(10000000)

#define PASSED(why, value) [BT_FAST_PASSED + (why)] = {"router_fast_path_passed_total", "reason", value}

const struct bt_counter_desc bt_fast_counter_descs[BT_FAST_COUNTERS] = {
    [BT_FAST_REQUEST] = {"router_fast_path_total", "kind", "request"},
    [BT_FAST_FEEDBACK] = {"router_fast_path_total", "kind", "feedback"},
    [BT_FAST_UNSENT] = {"router_fast_path_unsent_total", NULL, NULL},
    [BT_FAST_LOANS] = {"router_fast_path_loans_total", NULL, NULL},
    [BT_FAST_DISAGREED] = {"router_fast_path_disagreed_total", NULL, NULL},
    [BT_FAST_DAMAGED] = {"router_fast_path_damaged_total", NULL, NULL},
    PASSED(BT_PASS_FORM, "form"),
    PASSED(BT_PASS_BATCH, "batch"),
    PASSED(BT_PASS_SOURCE, "source"),
    PASSED(BT_PASS_ROOM, "room"),
    PASSED(BT_PASS_FULL, "full"),
    PASSED(BT_PASS_TAG, "tag"),
    PASSED(BT_PASS_WORKER, "worker"),
    PASSED(BT_PASS_ORDER, "order"),
    PASSED(BT_PASS_NOTES, "notes"),
    PASSED(BT_PASS_LAPSED, "lapsed"),
};

void bt_fast_counters(const struct bt_fast *f, uint64_t out[BT_FAST_COUNTERS])
{
    const struct bt_delegation_counters *c = &f->log->counters;
    out[BT_FAST_REQUEST] = c->requests;
    out[BT_FAST_FEEDBACK] = c->feedback;
    out[BT_FAST_UNSENT] = c->unsent;
    out[BT_FAST_LOANS] = f->loans;
    out[BT_FAST_DISAGREED] = f->disagreed;
    out[BT_FAST_DAMAGED] = c->damaged;
    memcpy(out + BT_FAST_PASSED, f->passed, sizeof f->passed);
}

void bt_fast_read(struct bt_fast *f, struct bt_router *r, struct bt_txq *txq)
{
    uint64_t head = __atomic_load_n(&f->log->head, __ATOMIC_ACQUIRE);
    for (; f->tail != head; f->tail++) {
        if (!bt_router_replay(r, &f->log->note[f->tail % BT_DELEGATION_NOTES], txq)) {
            f->disagreed++;
        }
    }
    __atomic_store_n(&f->log->tail, f->tail, __ATOMIC_RELEASE);
}

// Returns when no program decides any more: one that began before waits for, or holds, the lock taken here.
static void end_loan(struct bt_fast *f)
{
    const uint32_t zero = 0;
    f->cut_short = __atomic_exchange_n(&f->log->open, 0, __ATOMIC_SEQ_CST) != 0;
    if (f->cut_short) {
        (void)bpf_map_lookup_elem_flags(f->state_fd, &zero, &f->seen, BPF_F_LOCK);
    } else if (f->log->why < BT_PASS_REASONS) {
        f->passed[f->log->why]++;
    }
    f->lent = false;
}

void bt_fast_take_back(struct bt_fast *f, struct bt_router *r, uint64_t now, struct bt_txq *txq)
{
    if (f->lent) {
        end_loan(f);
        bt_fast_read(f, r, txq);
        f->rests_until = now + f->rest_ns;
    }
}

// Packets to our own address do not leave by the device. Workers that get nothing are lent without any.
static bool own_worker(const struct bt_fast *f, const struct bt_delegation *d)
{
    for (unsigned w = 0; w < d->span; w++) {
        if (f->place.out != 0 && d->worker[w].ip == f->place.ip) {
            return true;
        }
    }
    return false;
}

static enum bt_lend draw_up(const struct bt_fast *f, const struct bt_router *r, struct bt_delegation *d)
{
    enum bt_lend why = bt_router_lend(r, d);
    return why == BT_LEND_YES && own_worker(f, d) ? BT_LEND_OWN_ADDRESS : why;
}

enum bt_lend bt_fast_judge(const struct bt_fast *f, const struct bt_router *r)
{
    struct bt_delegation d;
    return f->why_not == BT_LEND_KERNEL ? f->why_not : draw_up(f, r, &d);
}

static void lend(struct bt_fast *f, const struct bt_router *r, uint64_t now)
{
    const uint32_t zero = 0;
    f->why_not = draw_up(f, r, &f->terms.d);
    if (f->why_not != BT_LEND_YES) {
        return;
    }
    f->terms.d.loan = (uint32_t)++f->loans | UINT32_C(1) << 31;
    if (bpf_map_update_elem(f->state_fd, &zero, &f->terms, BPF_F_LOCK) != 0) {
        f->why_not = BT_LEND_KERNEL;
        return;
    }
    f->lent = true;
    f->log->lease = now + LEASE_NS;
    __atomic_store_n(&f->log->open, 1, __ATOMIC_SEQ_CST);
}

void bt_fast_turn(struct bt_fast *f, struct bt_router *r, uint64_t now, struct bt_txq *txq)
{
    if (f->lent && __atomic_load_n(&f->log->open, __ATOMIC_ACQUIRE) == 0) {
        bt_fast_take_back(f, r, now, txq);
    }
    if (f->lent && !bt_router_loan_holds(r, &f->terms.d)) {
        end_loan(f);
        bt_fast_read(f, r, txq);
        lend(f, r, now);
    } else if (f->lent) {
        __atomic_store_n(&f->log->lease, now + LEASE_NS, __ATOMIC_RELAXED);
    } else if (now >= f->rests_until) {
        lend(f, r, now);
    }
}

uint64_t bt_fast_next(const struct bt_fast *f, uint64_t now)
{
    if (!f->lent && f->why_not == BT_LEND_YES) {
        return f->rests_until;
    }
    return now + READ_NS;
}

bool bt_fast_lent(const struct bt_fast *f)
{
    return f->lent;
}

enum bt_lend bt_fast_why_not(const struct bt_fast *f)
{
    return f->why_not;
}
