// SPDX-License-Identifier: Apache-2.0
// A configuration is judged whole before anything changes, then takes effect at once. Workers that stay keep slot and
// counters; removed ones are drained.
#include "router/config.h"

#include <string.h>

#include "router/feature.h"
#include "router/queue.h"
#include "router/watchers.h"
#include "router/workers.h"

#define CENTRAL_MAX 1048576u
#define PAYLOAD_MIN 78u /* the longest header and the 14 bytes of a REQ0 that has more to come */
#define PAYLOAD_MAX 65507u

static bool refused(struct bt_router_refusal *why, const char *field, const char *reason)
{
    if (why != NULL) {
        *why = (struct bt_router_refusal){field, reason, 0};
    }
    return false;
}

static bool outside(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least || value > most;
}

static bool judge_numbers(const struct bt_router_config *c, struct bt_router_refusal *why)
{
    const bool by_payload = c->max_payload != 0, holds_back = c->hold_back_packets != 0;
    const struct {
        bool wrong;
        const char *field, *reason;
    } rules[] = {
        {outside(c->policy, 0, BT_ROUTER_POLICIES - 1), "service.policy", "must be one of" BT_ROUTER_POLICY_WORDS},
        {outside(c->forwarding, BT_FORWARD_ENCAPSULATED, BT_FORWARD_TRANSPARENT), "service.forwarding",
         "must be Encapsulated or Transparent"},
        {outside(c->device, 0, BT_DEVICE_SRIOV), "service.deviceProfile", "must be Kernel, AFXDP or SRIOV"},
        {outside(c->depth, 1, BT_ROUTER_DEPTH_MAX), "service.workerQueueDepth", "must be 1..64"},
        {outside(c->central_limit, 1, CENTRAL_MAX), "service.centralQueueLimit", "must be 1..1048576"},
        {outside(c->max_queue_ns, 1, 600 * SECOND), "service.maxQueueMilliseconds", "must be 1..600000"},
        {outside(c->request_timeout_ns, 1, 600 * SECOND), "service.requestTimeoutMilliseconds", "must be 1..600000"},
        {holds_back != (c->hold_back_ns != 0), "service.holdBack",
         "packets and microseconds must both be 0 or both positive"},
        {holds_back && c->policy != BT_ROUTER_JBSQ, "service.holdBack",
         "needs policy JBSQ; set packets and microseconds to 0"},
        {by_payload && outside(c->max_payload, PAYLOAD_MIN, PAYLOAD_MAX), "maxPayload", "must be 0 or 78..65507 bytes"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].wrong) {
            return refused(why, rules[i].field, rules[i].reason);
        }
    }
    return true;
}

static bool judge_features(const struct bt_router *r, const struct bt_router_config *c, struct bt_router_refusal *why)
{
    for (unsigned i = ROUTER_FEATURES; i-- > 0;) {
        const char *field = "", *reason = router_features[i]->judge(r, c, &field);
        if (reason != NULL) {
            return refused(why, field, reason);
        }
    }
    return true;
}

static bool judge_timers(const struct bt_router_config *c, struct bt_router_refusal *why)
{
    const uint64_t most = 3600 * SECOND; /* keeps sums of times far from overflow */
    if (c->timers.loss_ns > most || c->timers.leak_ns > most || c->timers.dead_ns > most || c->hold_back_ns > most) {
        return refused(why, "timers", "must be at most one hour each");
    }
    return true;
}

/* Fills the scratch map with the configuration's addresses; false at the first one that is no worker's. */
static bool judge_members(const struct bt_router *r, const struct bt_router_config *c, struct bt_router_refusal *why)
{
    if (c->members_n > r->slots) {
        return refused(why, "members", "more workers than this router was started for");
    }
    memset(r->map_next, 0, (r->map_mask + 1u) * sizeof *r->map_next);
    for (size_t i = 0; i < c->members_n; i++) {
        const char *reason = NULL;
        if (bt_addr_bad_source(&c->members[i]) || c->members[i].pad != 0) {
            reason = "must be a unicast address with a port";
        } else if (bt_addr_eq(&c->members[i], &r->request_addr) || bt_addr_eq(&c->members[i], &r->feedback_addr)) {
            reason = "is the router's own address";
        } else if (!router_map_claim(r, r->map_next, c->members, (uint32_t)i)) {
            reason = "address and port appear twice";
        }
        if (reason != NULL) {
            refused(why, "members", reason);
            if (why != NULL) {
                why->index = i;
            }
            return false;
        }
    }
    return true;
}

/* what a device can be trusted to deliver in time. */
static struct bt_router_timers profile_timers(const struct bt_router_config *c)
{
    bool fast = c->device == BT_DEVICE_SRIOV;
    struct bt_router_timers t = c->timers;
    t.loss_ns = t.loss_ns != 0 ? t.loss_ns : (fast ? 2u : 200u) * MILLISECOND;
    t.leak_ns = t.leak_ns != 0 ? t.leak_ns : 100u * MILLISECOND;
    t.dead_ns = t.dead_ns != 0 ? t.dead_ns : (fast ? 30u : 1000u) * MILLISECOND;
    return t;
}

void router_take_numbers(struct bt_router *r, const struct bt_router_config *c)
{
    r->balancer = &bt_balancers[c->policy];
    r->jbsq = c->policy == BT_ROUTER_JBSQ;
    r->forwarding = c->forwarding;
    r->legacy_peers = c->legacy_peers;
    r->depth = c->depth;
    r->central_limit = c->central_limit;
    r->max_payload = c->max_payload;
    r->max_queue_ns = c->max_queue_ns;
    r->request_timeout_ns = c->request_timeout_ns;
    r->hold_back_packets = c->hold_back_packets;
    r->hold_back_ns = c->hold_back_ns;
    r->timers = profile_timers(c);
    r->leak_ns = r->timers.leak_ns;
    memset(&r->keys, 0, sizeof r->keys);
    if (c->keys != NULL) {
        r->keys = *c->keys;
    }
}

/* Removed workers get nothing new from here on; those that return while draining are ordinary again. */
static void mark_members(struct bt_router *r, uint64_t now, const struct bt_router_config *c)
{
    for (size_t i = 0; i < c->members_n; i++) {
        uint32_t w = router_find(r, &c->members[i]);
        if (w != NO_SLOT) {
            r->worker[w].flags |= WORKER_STAYS;
        }
    }
    for (uint32_t w = 0; w < r->used_end; w++) {
        struct worker *worker = &r->worker[w];
        if ((worker->flags & WORKER_STAYS) != 0) {
            worker->flags = (uint16_t)((worker->flags | WORKER_ALLOWED) & ~WORKER_STAYS);
        } else if ((worker->flags & WORKER_ALLOWED) != 0) {
            worker->flags = (uint16_t)(worker->flags & ~WORKER_ALLOWED);
            r->cold[w].quiet_since = now;
        }
    }
}

static void take_members(struct bt_router *r, uint64_t now, const struct bt_router_config *c)
{
    mark_members(r, now, c);
    uint32_t from = 0;
    for (size_t i = 0; i < c->members_n; i++) {
        uint32_t w = router_find(r, &c->members[i]);
        if (w == NO_SLOT) {
            w = router_take_slot(r, now, &from);
            r->worker[w].addr = c->members[i];
            r->cold[w].quiet_since = now;
            router_map_add(r, r->map, &c->members[i], w);
        }
        r->order[i] = (uint16_t)w;
    }
    r->order_n = (uint32_t)c->members_n;
    for (uint32_t w = 0; w < r->used_end; w++) {
        bt_credit_look_again(&r->credit[w]); /* T_loss may be another one */
        router_legacy_default(r, w);
        router_refresh(r, w);
    }
}

static void apply_features(struct bt_router *r, uint64_t now, const struct bt_router_config *c)
{
    router_watchers_clear(r);
    for (unsigned i = 0; i < ROUTER_FEATURES; i++) {
        router_features[i]->apply(r, now, c);
    }
}

bool router_apply(struct bt_router *r, uint64_t now, const struct bt_router_config *config,
                  struct bt_router_refusal *why)
{
    if (!judge_numbers(config, why) || !judge_timers(config, why) || !judge_features(r, config, why) ||
        !judge_members(r, config, why)) {
        r->counter[BT_RC_CONFIGS_REFUSED]++;
        return false;
    }
    now = router_clock(r, now);
    router_take_numbers(r, config);
    bt_load_bound(&r->load, r->balancer->bounded);
    apply_features(r, now, config); /* before the workers' rows, which say who is steady */
    take_members(r, now, config);
    r->counter[BT_RC_CONFIGS_APPLIED]++;
    router_pump_soon(r);
    r->next_health = now;
    return true;
}
