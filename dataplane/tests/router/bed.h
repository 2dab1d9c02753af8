// SPDX-License-Identifier: Apache-2.0
// A router on a bench: builds one with k workers, feeds it packets, keeps what it sends.
#ifndef BOBTAIL_TESTS_ROUTER_BED_H
#define BOBTAIL_TESTS_ROUTER_BED_H

#include "base/rng.h"
#include "router/router.h"
#include "unit.h"
#include "wire/feedback.h"
#include "wire/r2p2.h"
#include "wire/tag.h"

#define BED_WORKERS 1024u
#define MS          UINT64_C(1000000)
#define SEC         UINT64_C(1000000000)

struct bed {
    struct bt_router *r;
    void *mem, *pool_mem;
    struct bt_pool_fixed fixed;
    struct bt_pool *pool;
    uint32_t packets, max_hedges; /* 0: as many as a router keeps by itself */
    uint64_t now, lay_ns;         /* so long ago packets were received */
    struct bt_txq out;
    struct bt_router_config config;
    struct bt_addr members[BED_WORKERS];
    struct bt_keyring keys;
    struct bt_addr client, requests, feedback;
};

/* What a FEEDBACK of the bench says; everything not set is 0. */
struct bed_report {
    uint64_t received, served;
    uint32_t n, incarnation;
    uint8_t flags;
    uint16_t req_id;            /* of the finished pair, when flags say so */
    uint16_t signal;            /* of flow control, in version 3; 0: version 1 */
    const struct bt_addr *from; /* another source than the worker */
    bool untagged;
    const struct bt_key *key; /* another key than the service's */
};

/* k workers, policy JBSQ(n), nobody joined. */
void bed_open(struct bed *b, uint32_t k, uint32_t n);
/* Before bed_open with special setup: fills the defaults only. */
void bed_defaults(struct bed *b, uint32_t k, uint32_t n);
void bed_build(struct bed *b);
void bed_close(struct bed *b); /* also checks that every packet came home */
void bed_apply(struct bed *b); /* applies b->config, must be accepted */
void bed_use_keys(struct bed *b);

void bed_join(struct bed *b, uint32_t w, uint32_t n); /* JOIN with zero counters, incarnation 1 */
void bed_join_all(struct bed *b, uint32_t n);
void bed_feedback(struct bed *b, uint32_t w, const struct bed_report *report);
void bed_feedback_bytes(struct bed *b, const struct bt_addr *from, const uint8_t *bytes, size_t len);
void bed_legacy(struct bed *b, uint32_t w, uint16_t req_id);
size_t bed_feedback_make(struct bed *b, uint32_t w, const struct bed_report *report, uint8_t *bytes);

/* A single-packet request: policy, id and options are the header's, the body so many bytes. */
void bed_request_as(struct bed *b, struct bt_r2p2_hdr hdr, uint32_t body);
void bed_request(struct bed *b, uint16_t req_id, uint8_t policy, uint32_t body);
void bed_send(struct bed *b, uint16_t req_id); /* policy 0, 8 bytes */
void bed_request_bytes(struct bed *b, const struct bt_addr *from, const uint8_t *bytes, size_t len);
void bed_tick(struct bed *b, uint64_t step); /* moves time on, then ticks */

/* Takes the oldest packet sent. bed_take returns the worker it went to, or -1 (a DROP or nothing). */
struct bt_pkt *bed_packet(struct bed *b);
int bed_take(struct bed *b);
bool bed_take_drop(struct bed *b, uint16_t req_id);
void bed_discard(struct bed *b);

uint64_t bed_counter(const struct bed *b, enum bt_router_counter c);
uint64_t bed_malformed(const struct bed *b, enum bt_mcase m);
struct bt_router_member_stats bed_row(const struct bed *b, uint32_t w);
uint32_t bed_outstanding(const struct bed *b, uint32_t w);
uint64_t bed_held(const struct bed *b);
uint64_t bed_pairs(const struct bed *b); /* being watched */

#endif
