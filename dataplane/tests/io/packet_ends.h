// SPDX-License-Identifier: Apache-2.0
// What the cases of the packet suite do with the two ends of a network: send, receive, compare, count.
#ifndef BT_TESTS_PACKET_ENDS_H
#define BT_TESTS_PACKET_ENDS_H

#include "packet_suite.h"

#define MS     UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

// A payload of `len` bytes that starts with `seed`, as far as there is room for it.
void packet_queue(struct packet_end *e, struct bt_txq *q, unsigned from, struct bt_addr to, uint32_t seed,
                  uint32_t len);
uint32_t packet_seed(const struct bt_pkt *p);
void packet_check(const struct bt_pkt *p, uint32_t seed, uint32_t len);
void packet_send(struct packet_end *e, struct bt_txq *q);
// One turn of the loop of an end that has nothing to receive: its link may have to answer or ask.
void packet_serve(struct packet_end *e);
// Receives until `want` packets are there or 5 s have passed, while the other end goes on living.
unsigned packet_receive(struct packet_rig *r, unsigned at, uint32_t port, struct bt_pkt **pkts, unsigned want);
void packet_give_back(struct packet_end *e, struct bt_pkt **pkts, unsigned n);
// Sum of the counters whose name ends in `name`, with that label value if one is given.
uint64_t packet_counted(struct packet_end *e, const char *name, const char *value);
// The largest payload.
uint32_t packet_largest(const struct packet_rig *r);
// Both ends know each other: what is tested is not whether a first packet waits for a neighbour.
void packet_acquaint(struct packet_rig *r);

#endif
