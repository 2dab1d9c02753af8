// SPDX-License-Identifier: Apache-2.0
// The router on two threads: a REQ0 thread with the central queue, the policy and `sent`, and a FEEDBACK thread
// with the credit accounting, the workers' health and the latency of pairs. Each is a half: a struct bt_router of its
// own, so that both run the code of router.h. They share no variable that both write: credit travels in one
// word per worker, what was sent in a bounded queue of notes. Pure like the router: no clock, no lock, no allocation;
// who runs the two halves wakes and stops their threads (docs/decisions/0007).
//
// Each function says whose it is. "Both stopped" ones may run in any thread while neither half runs.
#ifndef BOBTAIL_ROUTER_SPLIT_H
#define BOBTAIL_ROUTER_SPLIT_H

#include "router/router.h"

struct bt_split;

struct bt_split_setup {
    struct bt_router_setup router; /* as for one thread; its pool is that of the request port's packets */
    struct bt_pool *feedback_pool; /* where consumed FEEDBACK goes back */
    uint32_t credits, notes;       /* entries of the two queues, powers of two up to 65536; 0 = 2048 and 4096 */
};

/* Bytes of memory init needs, 64-byte aligned; 0 if the setup is out of bounds. */
size_t bt_split_bytes(const struct bt_split_setup *setup);

/* As bt_router_init. */
struct bt_split *bt_split_init(void *mem, size_t bytes, const struct bt_split_setup *setup, uint64_t now);

/* --- REQ0 thread -------------------------------------------------------------------------------------------------- */

/* Takes the credit the other half published, which may release held requests, then a burst from the request
 * port, each packet at its own t_rx_ns. n may be 0. */
void bt_split_requests(struct bt_split *s, struct bt_pkt *const *pkts, unsigned n, struct bt_txq *txq);

/* As bt_router_tick, for what is due in this half; bt_router_next of bt_split_request_half says when. */
void bt_split_request_tick(struct bt_split *s, uint64_t now, struct bt_txq *txq);

/* Credit was published that no call above has taken yet. Before the thread sleeps with requests held, it says so to the
 * other thread, then asks this; the other publishes, then asks whether to wake it. */
bool bt_split_credit_waits(const struct bt_split *s);

/* The queue of notes is more than half full: the FEEDBACK thread should not sleep on. */
bool bt_split_notes_pile_up(const struct bt_split *s);

/* ICMP errors come in where requests go out; the other half judges them. */
void bt_split_unreachable(struct bt_split *s, uint64_t now, const struct bt_addr *worker);

/* For bt_router_next, _holds, _drain, _draining, _drained, _discard_held and _hold. */
struct bt_router *bt_split_request_half(struct bt_split *s);

/* --- FEEDBACK thread ---------------------------------------------------------------------------------------------- */

/* Takes the notes of what was sent before, then a burst from the feedback port, each packet at its own t_rx_ns. It must
 * have been received before the call: so the note of a request is always read before the FEEDBACK that answers it. */
void bt_split_feedback(struct bt_split *s, struct bt_pkt *const *pkts, unsigned n);

/* As bt_router_tick, for what is due in this half; bt_router_next of bt_split_feedback_half says when. */
void bt_split_feedback_tick(struct bt_split *s, uint64_t now);

/* For bt_router_next, _member (both stopped) and _latency. */
struct bt_router *bt_split_feedback_half(struct bt_split *s);

/* --- both stopped ------------------------------------------------------------------------------------------------- */

/* As bt_router_apply and bt_router_stats. */
bool bt_split_apply(struct bt_split *s, uint64_t now, const struct bt_router_config *config,
                    struct bt_router_refusal *why);
void bt_split_stats(const struct bt_split *s, uint64_t now, struct bt_router_stats *out);

#endif
