// SPDX-License-Identifier: Apache-2.0
// The R2P2 request router (spec/jbsq-router.md): takes REQ0 and FEEDBACK packets and the time, gives back packets to
// send. Pure: no clock, no system call, no allocation after init.
//
// A router is on one thread or on two (setup.threads, R-119), and the same calls serve both. On one thread everything
// is called from it. On two, each function below says whose it is: the REQ0 thread's, the FEEDBACK thread's, or one
// that any thread may call while both stand still.
//
// FEEDBACK has strict priority: on one thread callers drain the feedback port before the request port. Times
// are ns of one monotonic clock. Packets given in belong to the router until they appear in txq or go back to the pool;
// the pool must be larger than centralQueueLimit, since held requests stay in their packet.
#ifndef BOBTAIL_ROUTER_H
#define BOBTAIL_ROUTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/histogram.h"
#include "base/pkt.h"
#include "router/router_config.h"
#include "router/router_stats.h"

struct bt_router;

/* Bytes of memory init needs, 64-byte aligned; 0 if the setup is out of bounds. */
size_t bt_router_bytes(const struct bt_router_setup *setup);

/* Builds a router without members in mem (bytes ≥ bt_router_bytes, alignment 64). NULL if setup or memory is wrong.
 * Every request gets DROP until the first apply. */
struct bt_router *bt_router_init(void *mem, size_t bytes, const struct bt_router_setup *setup, uint64_t now);

/* --- REQ0 thread -------------------------------------------------------------------------------------------------- */

/* A burst from the request port, each packet at its own t_rx_ns: forwarded, held, answered with DROP or discarded and
 * counted. The memory each will need is asked for before the first is handled. n may be 0. On two threads first the
 * credit is taken that the other one published, which may release held requests. */
void bt_router_requests(struct bt_router *r, struct bt_pkt *const *pkts, unsigned n, struct bt_txq *txq);

/* A packet alone, on one thread at `now`. */
void bt_router_request(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_txq *txq);

/* The network said a worker's port is closed (ICMP): suspect until its next FEEDBACK. Unknown addresses are ignored. */
void bt_router_unreachable(struct bt_router *r, uint64_t now, const struct bt_addr *worker);

/* Runs everything due at now in this thread; bt_router_next gives the earliest time at which calling it again is of use
 * (UINT64_MAX = never, ≤ now = at once). Calling it late or too often is harmless. */
void bt_router_tick(struct bt_router *r, uint64_t now, struct bt_txq *txq);
uint64_t bt_router_next(const struct bt_router *r);

/* True while a request waits in the central queue: then a FEEDBACK is urgent. */
bool bt_router_holds(const struct bt_router *r);

/* Credit was published that no call above has taken yet. Before the thread sleeps with requests held, it says so to the
 * other thread, then asks this; the other publishes, then asks whether to wake it. Never on one thread. */
bool bt_router_credit_waits(const struct bt_router *r);

/* The queue of notes is more than half full: the FEEDBACK thread should not sleep on. Never on one thread. */
bool bt_router_notes_pile_up(const struct bt_router *r);

/* Admission or hedging is on: every request and every FEEDBACK has to come here, and nothing in front of the router may
 * handle them in its place. */
bool bt_router_notes_requests(const struct bt_router *r);

/* Starts draining: requests are still forwarded. bt_router_drained is true once nothing is held and no request came
 * for quiet_ns since. */
void bt_router_drain(struct bt_router *r, uint64_t now);
bool bt_router_draining(const struct bt_router *r);
bool bt_router_drained(const struct bt_router *r, uint64_t now, uint64_t quiet_ns);

/* Returns every held packet to the pool, unanswered. For tear-down only. */
void bt_router_discard_held(struct bt_router *r);

/* --- FEEDBACK thread ---------------------------------------------------------------------------------------------- */

/* A burst from the feedback port, each packet at its own t_rx_ns; on one thread it frees credits, so held requests may
 * leave in txq. On two nothing leaves here; the burst must have been received before the call, so that the note of a
 * request is always read before the FEEDBACK that answers it. */
void bt_router_feedbacks(struct bt_router *r, struct bt_pkt *const *pkts, unsigned n, struct bt_txq *txq);

/* A packet alone, on one thread at `now`. */
void bt_router_feedback(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_txq *txq);

/* As bt_router_tick and bt_router_next, for what is due in this thread. On one thread that is nothing. */
void bt_router_feedback_tick(struct bt_router *r, uint64_t now);
uint64_t bt_router_feedback_next(const struct bt_router *r);

/* --- both stopped ------------------------------------------------------------------------------------------------- */

/* Applies a configuration whole, or refuses it whole and leaves the state alone (false; why says which field).
 * Members that stay keep their counters; removed ones get nothing new and are drained. Credits freed by the
 * change are used at the next tick, which bt_router_next then reports as due. */
bool bt_router_apply(struct bt_router *r, uint64_t now, const struct bt_router_config *config,
                     struct bt_router_refusal *why);

/* Counters and gauges at now. bt_router_counter_descs[i] names counter[i]; malformed[m] is
 * router_discarded_total{reason=bt_mcase_name(m)}. */
void bt_router_read_stats(const struct bt_router *r, uint64_t now, struct bt_router_stats *out);

/* Row of the i-th configured member (i < members of bt_router_stats); false past the end. */
bool bt_router_member(const struct bt_router *r, uint64_t now, uint32_t i, struct bt_router_member_stats *out);

/* The same as the thread that decides knows it, which on two threads hears of a change a little later. */
bool bt_router_member_decided(const struct bt_router *r, uint64_t now, uint32_t i, struct bt_router_member_stats *out);

/* One-second slices: REQ0 in → FEEDBACK (unanswered = +inf; also counts arrived requests and DROPs, the router's own
 * and the workers'), and time between arrival and forwarding. NULL when the setup asked for no histograms. */
const struct bt_hist_slices *bt_router_latency(const struct bt_router *r);
const struct bt_hist_slices *bt_router_hold(const struct bt_router *r);

/* Since the start, while admission was on: REQ0 in → FEEDBACK of one class, or, with class BT_ADMISSION_CLASSES, of the
 * requests marked as degraded. NULL without histograms. Not to be read while the router runs. */
const struct bt_hist *bt_router_class_latency(const struct bt_router *r, unsigned class);

#endif
