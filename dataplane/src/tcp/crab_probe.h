// SPDX-License-Identifier: Apache-2.0
// Asks each server whether it is up and whether it echoes the redirect option (C-51, C-52): a SYN from the balancer's
// own address with the VIP in it. An exact echo means up and capable, an answer without one up, RST or silence down. A
// half-open connection is ended by RST. Pure: packets in, packets out, time as a number.
#ifndef BT_TCP_CRAB_PROBE_H
#define BT_TCP_CRAB_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/rng.h"
#include "tcp/crab_segment.h"

#define BT_CRAB_MAX_PROBED 16384u
// A probe of a target leaves from its own port, so that its answer names it.
#define BT_CRAB_PROBE_PORT 40000u
#define BT_CRAB_PROBE_MOST 80u // bytes of a packet it writes

enum bt_crab_health { BT_CRAB_DOWN, BT_CRAB_UP_PLAIN, BT_CRAB_UP_CAPABLE };

struct bt_crab_probe_target {
    struct bt_addr dip, vip; // of one family, ports 0
    uint16_t port;
};

struct bt_crab_probe_config {
    struct bt_addr own4, own6; // the addresses probes come from; that of a family without targets may be zero
    struct bt_crab_encoding encoding;
    uint64_t interval_ns; // 0: 1 s
    uint64_t timeout_ns;  // 0: 500 ms; at most the interval
    uint32_t failures;    // until a server counts as down; 0: 3
    uint32_t successes;   // until it counts as up; 0: 2
    uint64_t seed;
};

struct bt_crab_probed {
    struct bt_crab_probe_target target;
    uint64_t due_ns; // of the next probe, or of giving up the one under way
    uint32_t seq;    // of the one under way
    bool waiting;
    uint8_t health; // enum bt_crab_health
    uint32_t run;   // answers, or failures, in a row that contradict `health`
};

struct bt_crab_prober {
    struct bt_crab_probe_config cfg;
    struct bt_crab_probed *probed;
    uint32_t n, at;   // `at`: where the search for a due target goes on
    uint64_t changes; // of a target's health
    uint64_t sent, answered, refused, silent, unasked;
    struct bt_rng rng;
};

// mem: n (up to BT_CRAB_MAX_PROBED) times sizeof(struct bt_crab_probed). Every target starts as down, and its first
// probes are spread over an interval; one answer makes a target that was never up count as up.
void bt_crab_prober_init(struct bt_crab_prober *p, struct bt_crab_probed *mem,
                         const struct bt_crab_probe_target *targets, uint32_t n, const struct bt_crab_probe_config *cfg,
                         uint64_t now_ns);

// Writes the next probe that is due and returns its length, 0 if none is; it goes to *hop. Looks at no more than 256
// targets a call; call it again when it returned something, and every millisecond or so.
uint32_t bt_crab_prober_send(struct bt_crab_prober *p, uint64_t now_ns, uint8_t out[BT_CRAB_PROBE_MOST],
                             struct bt_addr *hop);

// Takes the TCP segment of an IP packet to an own address. Returns the length of an answer (RST) to *hop, else 0.
uint32_t bt_crab_prober_take(struct bt_crab_prober *p, uint64_t now_ns, const uint8_t *packet, uint32_t len,
                             uint8_t out[BT_CRAB_PROBE_MOST], struct bt_addr *hop);

#endif
