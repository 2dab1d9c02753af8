// SPDX-License-Identifier: Apache-2.0
// Workers that fall silent, leave, leak credits or fail at once (R-139a). Looked at a few
// times per T_dead, not per packet, so a scan of all workers is cheap and divisions are allowed.
#include "router/health.h"

#include <string.h>

#include "router/queue.h"
#include "router/workers.h"

#define WINDOW_MIN  20u /* pairs before a dropped share means anything */
#define EJECT_FIRST SECOND
#define BACKOFF_MAX 8u /* doublings: 256 s, 256 × T_leak */
#define SOON        MILLISECOND

static uint64_t period(const struct bt_router *r)
{
    uint64_t eighth = (r->timers.dead_ns < r->leak_ns ? r->timers.dead_ns : r->leak_ns) / 8u;
    uint64_t bounded = eighth < MILLISECOND ? MILLISECOND : eighth;
    return bounded < 100u * MILLISECOND ? bounded : 100u * MILLISECOND;
}

void router_health_soon(struct bt_router *r, uint64_t now)
{
    if (r->next_health > now + SOON) {
        r->next_health = now + SOON;
    }
}

static bool failing(const struct worker *worker)
{
    return worker->window_total >= WINDOW_MIN && worker->window_dropped * 2u > worker->window_total;
}

void router_note_finished(struct bt_router *r, uint64_t now, uint32_t w, uint8_t unserved)
{
    struct worker *worker = &r->worker[w];
    worker->window_total++;
    if (worker->window_total == ROUTER_WINDOW_MAX) {
        worker->window_total /= 2u;
        worker->window_dropped /= 2u;
    }
    if ((unserved & BT_FEEDBACK_CANCELLED) != 0) {
        worker->window_total--; /* neither its success nor its failure */
    } else if (unserved) {
        worker->window_dropped++;
        if (failing(worker)) {
            router_health_soon(r, now);
        }
    } else if (worker->window_total >= WINDOW_MIN && worker->window_dropped * 2u <= worker->window_total) {
        worker->ejections = 0; /* it works again: the next ejection is short */
    }
}

/* Dropped share in 1/65536. */
static uint32_t share(const struct worker *worker)
{
    return worker->window_total == 0 ? 0 : (worker->window_dropped << 16) / worker->window_total;
}

/* Median share of the pool, by counting: shares are put in 256 bins, whose lower edge is precise enough for "5×". */
static uint32_t median_share(const struct bt_router *r, uint32_t joined)
{
    uint32_t bins[257];
    memset(bins, 0, sizeof bins);
    for (uint32_t w = 0; w < r->used_end; w++) {
        if ((r->worker[w].flags & WORKER_JOINED) != 0) {
            bins[share(&r->worker[w]) >> 8]++;
        }
    }
    uint32_t below = 0;
    for (uint32_t b = 0; b < 257u; b++) {
        below += bins[b];
        if (below * 2u >= joined && below > 0) {
            return b << 8;
        }
    }
    return 0;
}

static uint32_t count_joined(const struct bt_router *r)
{
    uint32_t n = 0;
    for (uint32_t w = 0; w < r->used_end; w++) {
        n += (r->worker[w].flags & WORKER_JOINED) != 0 ? 1u : 0u;
    }
    return n;
}

/* One of those that requests are shared out among, or would be if it were not ejected. */
static bool in_pool(const struct worker *worker)
{
    const unsigned wanted = WORKER_ALLOWED | WORKER_JOINED;
    return (worker->flags & (wanted | WORKER_LEAVING | WORKER_SUSPECT)) == wanted && worker->n > 0;
}

static uint32_t count_pool(const struct bt_router *r, uint32_t *ejected)
{
    uint32_t pool = 0;
    *ejected = 0;
    for (uint32_t w = 0; w < r->used_end; w++) {
        if (in_pool(&r->worker[w])) {
            pool++;
            *ejected += (r->worker[w].flags & WORKER_EJECTED) != 0 ? 1u : 0u;
        }
    }
    return pool;
}

static void readmit(struct bt_router *r, uint32_t w)
{
    r->worker[w].flags = (uint16_t)(r->worker[w].flags & ~WORKER_EJECTED);
    router_refresh(r, w);
    router_pump_soon(r);
}

/* Never more than half the pool is out (R-139a), also when it shrank since: those due back first return at once. */
static void keep_half(struct bt_router *r)
{
    uint32_t ejected;
    uint32_t pool = count_pool(r, &ejected);
    for (; ejected * 2u > pool; ejected--) {
        uint32_t first = NO_SLOT;
        for (uint32_t w = 0; w < r->used_end; w++) {
            if (in_pool(&r->worker[w]) && (r->worker[w].flags & WORKER_EJECTED) != 0 &&
                (first == NO_SLOT || r->cold[w].eject_until < r->cold[first].eject_until)) {
                first = w;
            }
        }
        readmit(r, first);
    }
}

static void eject_failing(struct bt_router *r, uint64_t now)
{
    uint32_t ejected;
    uint32_t pool = count_pool(r, &ejected);
    uint32_t median = median_share(r, count_joined(r));
    for (uint32_t w = 0; w < r->used_end; w++) {
        struct worker *worker = &r->worker[w];
        if (!in_pool(worker) || (worker->flags & WORKER_EJECTED) != 0 || !failing(worker) ||
            share(worker) <= 5u * median) {
            continue;
        }
        worker->window_total = 0; /* judged; the next verdict needs new evidence */
        worker->window_dropped = 0;
        if ((ejected + 1u) * 2u > pool) {
            r->counter[BT_RC_EJECTION_SPARED]++;
            continue;
        }
        ejected++;
        worker->flags |= WORKER_EJECTED;
        r->cold[w].eject_until = now + (EJECT_FIRST << worker->ejections);
        worker->ejections = (uint8_t)(worker->ejections < BACKOFF_MAX ? worker->ejections + 1u : BACKOFF_MAX);
        r->counter[BT_RC_EJECTED]++;
        router_refresh(r, w);
    }
}

/* R-138 for a worker that speaks extended FEEDBACK: idle ones report every period, busy ones after each request. */
static void check_silence(struct bt_router *r, uint32_t w, uint64_t now, uint64_t outstanding)
{
    struct worker *worker = &r->worker[w];
    uint64_t limit = r->timers.dead_ns;
    if (outstanding > 0 && r->leak_ns > limit) {
        limit = r->leak_ns; /* it may be busy with a long request and have nothing to say */
    }
    if ((worker->flags & WORKER_SUSPECT) == 0 && now - worker->heard_at >= limit) {
        worker->flags |= WORKER_SUSPECT;
        r->cold[w].quiet_since = now;
        r->counter[BT_RC_SUSPECTED]++;
        router_refresh(r, w);
    }
}

/* Gives one credit back, and where n is the limit all that stand above n - 1: with those there can be no request, so
 * nothing would be asked. Elsewhere each that is given back is a request more. At once: forged counters, where there is
 * no key, let a worker owe any number. */
static uint64_t reclaim(struct bt_router *r, uint32_t w)
{
    uint64_t owed = router_outstanding(r, w), n = r->worker[w].n;
    uint64_t excess = r->load.bounded && owed > n ? owed - n : 0;
    return bt_credit_reclaim(&r->credit[w], router_sent(r, w), excess + 1u);
}

/* R-110 for a legacy worker, which is silent when idle: takes credit for one request back per T_leak, each time more
 * patiently, so that a dead one costs ever fewer requests. The next request to it is the probe. */
static void check_leak(struct bt_router *r, uint32_t w, uint64_t now)
{
    struct worker *worker = &r->worker[w];
    if (now - worker->busy_at < r->leak_ns << worker->reclaims) {
        return;
    }
    uint64_t back = reclaim(r, w);
    if (back > 0) {
        r->counter[BT_RC_CREDITS_RECLAIMED] += back;
        worker->busy_at = now;
        worker->reclaims = (uint8_t)(worker->reclaims < BACKOFF_MAX ? worker->reclaims + 1u : BACKOFF_MAX);
        router_refresh(r, w);
        router_pump_soon(r);
    }
}

/* Workers that go: forgotten when they owe nothing or had T_max to answer. */
static bool finish_leaving(struct bt_router *r, uint32_t w, uint64_t now, uint64_t outstanding)
{
    struct worker *worker = &r->worker[w];
    bool removed = (worker->flags & WORKER_ALLOWED) == 0;
    bool silent = (worker->flags & WORKER_SUSPECT) != 0;
    if (!removed && !silent && (worker->flags & WORKER_LEAVING) == 0) {
        return false;
    }
    bool expired = now - r->cold[w].quiet_since >= r->request_timeout_ns;
    if (expired || (outstanding == 0 && !silent) || (outstanding == 0 && removed)) {
        router_forget(r, w, now);
        return true;
    }
    return false;
}

static void check_worker(struct bt_router *r, uint32_t w, uint64_t now)
{
    struct worker *worker = &r->worker[w];
    if ((worker->flags & WORKER_EJECTED) != 0 && now >= r->cold[w].eject_until) {
        readmit(r, w);
    }
    uint64_t outstanding = router_outstanding(r, w);
    if (finish_leaving(r, w, now, outstanding)) {
        return;
    }
    if ((worker->flags & WORKER_EXTENDED) != 0) {
        check_silence(r, w, now, outstanding);
    } else if (outstanding > 0) {
        check_leak(r, w, now);
    }
}

static void decay_windows(struct bt_router *r, uint64_t now)
{
    if (now < r->next_decay) {
        return;
    }
    r->next_decay = now + 10u * SECOND;
    for (uint32_t w = 0; w < r->used_end; w++) {
        r->worker[w].window_total /= 2u;
        r->worker[w].window_dropped /= 2u;
    }
}

/* T_leak is 20 times the p99 of what workers take, rounded up to a power of two, never below the configured
 * floor nor, if that is higher, above T_max. Waiting in the central FIFO does not count: it says nothing of a worker.
 * Once a second, then older answers weigh half. */
static void learn_response(struct bt_router *r, uint64_t now)
{
    if (now < r->next_learn) {
        return;
    }
    r->next_learn = now + SECOND;
    uint64_t total = 0, slower = 0;
    for (uint32_t b = 0; b < 64u; b++) {
        total += r->response[b];
    }
    if (total < WINDOW_MIN) {
        return;
    }
    uint32_t p99 = 63;
    while (p99 > 0 && (slower + r->response[p99]) * 100u < total) {
        slower += r->response[p99--];
    }
    uint64_t most = r->request_timeout_ns > r->timers.leak_ns ? r->request_timeout_ns : r->timers.leak_ns;
    uint64_t wanted = p99 < 38 ? UINT64_C(20) << (p99 + 1u) : most;
    wanted = wanted < most ? wanted : most;
    r->leak_ns = wanted > r->timers.leak_ns ? wanted : r->timers.leak_ns;
    for (uint32_t b = 0; b < 64u; b++) {
        r->response[b] /= 2u;
    }
}

void router_health(struct bt_router *r, uint64_t now)
{
    if (now < r->next_health) {
        return;
    }
    bool any_failing = false, any_ejected = false;
    for (uint32_t w = 0; w < r->used_end; w++) {
        unsigned flags = r->worker[w].flags;
        if ((flags & WORKER_JOINED) != 0 || ((flags & WORKER_USED) != 0 && (flags & WORKER_ALLOWED) == 0)) {
            check_worker(r, w, now);
            any_failing = any_failing || failing(&r->worker[w]);
            any_ejected = any_ejected || (r->worker[w].flags & WORKER_EJECTED) != 0;
        }
    }
    if (any_ejected) {
        keep_half(r);
    }
    if (any_failing) {
        eject_failing(r, now);
    }
    decay_windows(r, now);
    learn_response(r, now);
    r->next_health = now + period(r);
}
