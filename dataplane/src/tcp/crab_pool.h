// SPDX-License-Identifier: Apache-2.0
// The servers behind one VIP and the choice between them (C-60 to C-63). A pool never changes once it is built, its
// load reports apart: a change of servers is a new pool, built by whoever has the time and put in place between two
// packets, so that no SYN waits for it or is lost.
#ifndef BT_TCP_CRAB_POOL_H
#define BT_TCP_CRAB_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/rng.h"
#include "tcp/maglev.h"

#define BT_CRAB_MAX_BACKENDS 4096u
#define BT_CRAB_MAX_WEIGHT   256u
#define BT_CRAB_NOBODY       UINT32_MAX

enum bt_crab_policy {
    BT_CRAB_ROUND_ROBIN, // in turn; with different weights as WEIGHTED
    BT_CRAB_WEIGHTED,    // in turn, as often as the weight says
    BT_CRAB_RANDOM,
    BT_CRAB_HASH,         // by the connection's addresses and ports, consistent when servers come and go
    BT_CRAB_POWER_OF_TWO, // of two drawn at random the one with fewer open connections
    BT_CRAB_LEAST,        // fewest open connections
    BT_CRAB_POLICIES
};

struct bt_crab_backend {
    struct bt_addr ip; // DIP, of the VIP's family; port 0
    uint16_t weight;   // 1..BT_CRAB_MAX_WEIGHT
    bool capable;      // echoes the redirect option (up-crab, C-51)
    bool up;
};

// What a server said of itself. Written by one thread while another chooses.
struct bt_crab_report {
    _Atomic uint32_t open;  // connections
    _Atomic uint64_t at_ns; // of the same clock as the chooser's, 0: never
};

struct bt_crab_pool {
    uint32_t n, n_ready; // servers; those that are up and capable
    bool even;           // all that are ready weigh the same
    const struct bt_crab_backend *backends;
    const uint32_t *ready;          // indices into backends
    const uint64_t *weight_sum;     // of ready[0..i], inclusive
    struct bt_crab_report *reports; // by backend
    uint32_t *picked;               // chosen since its last report, by backend
    uint64_t *picked_for_ns;        // which report that was
    struct bt_maglev by_hash;       // over every server that is up
};

// What one chooser keeps between choices. Several balancers may share a cursor (central round robin, C-61).
struct bt_crab_chooser {
    struct bt_rng rng;
    _Atomic uint64_t *cursor;
    uint64_t stale_ns; // reports older than this are not believed (C-62)
};

size_t bt_crab_pool_bytes(uint32_t n);

// mem: bt_crab_pool_bytes(n) bytes, aligned to 64. What a backend must be has been checked. seed: the same for every
// balancer of a VIP, or they disagree on the consistent hash.
struct bt_crab_pool *bt_crab_pool_build(void *mem, const struct bt_crab_backend *backends, uint32_t n, uint64_t seed);

// Index of the server for a new connection, or BT_CRAB_NOBODY: none is up and capable. hash: of the connection.
uint32_t bt_crab_pool_choose(struct bt_crab_pool *pool, enum bt_crab_policy policy, struct bt_crab_chooser *chooser,
                             uint64_t hash, uint64_t now_ns);

// The server with this address if it is up and capable, else BT_CRAB_NOBODY.
uint32_t bt_crab_pool_find_ready(const struct bt_crab_pool *pool, const struct bt_addr *ip);

// Says that `ip` has so many connections open. False: no such server. Any one thread.
bool bt_crab_pool_report(struct bt_crab_pool *pool, const struct bt_addr *ip, uint32_t open, uint64_t now_ns);

// Copies what the servers of `old` said last to the same servers of `pool`, which nobody chooses from yet.
void bt_crab_pool_inherit(struct bt_crab_pool *pool, const struct bt_crab_pool *old);

#endif
