// SPDX-License-Identifier: Apache-2.0
// CRAB's load balancer (Kogias' thesis, chapter 7): of each connection it sees the SYN, names the server in it and
// forgets it; client and server go on without it. What cannot be redirected takes a consistent hash to a server on the
// same network, its addresses untouched (C-40 to C-43). Pure: no I/O, no clock, no allocation after init; one thread
// owns a balancer, several may share the cursor of a VIP. A VIP and its servers are of one family, IPv4 or IPv6 (C-9).
#ifndef BT_TCP_CRAB_H
#define BT_TCP_CRAB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "tcp/crab_pool.h"
#include "tcp/crab_segment.h"

#define BT_CRAB_MAX_VIPS 256u

// What happens to a segment that CRAB cannot redirect.
enum bt_crab_fallback {
    BT_CRAB_FALLBACK_DIRECT_RETURN, // goes to a server of the same network as it is; the server has the VIP (C-42)
    BT_CRAB_FALLBACK_DROP,
};

struct bt_crab_vip_config {
    struct bt_addr addr; // with its port
    enum bt_crab_policy policy;
    enum bt_crab_fallback fallback;
    bool assume_capable;      // clients of the published prototype send no placeholder: the option is inserted (C-22)
    _Atomic uint64_t *cursor; // shared by the balancers that take turns together; NULL: its own
};

struct bt_crab_config {
    struct bt_crab_encoding encoding; // kind 0: BT_CRAB_KIND
    const struct bt_crab_vip_config *vips;
    unsigned n_vips;          // 1..BT_CRAB_MAX_VIPS, no address and port twice
    uint32_t recent_sets;     // power of two; 0: 16,384, which is 65,536 SYNs of the last 3 s
    uint64_t report_stale_ns; // 0: 3 s (three intervals, C-62)
    uint64_t seed;            // of choices; hashes do not depend on it
};

enum bt_crab_counter {
    BT_CRAB_RX,                  // TCP segments looked at
    BT_CRAB_REDIRECTED,          // SYNs sent to a chosen server
    BT_CRAB_INSERTED,            // of these, the option was not there before (C-22)
    BT_CRAB_REPEATED,            // of these, repetitions that went where the first one did (C-25)
    BT_CRAB_FALLBACK_SYN,        // by the hash: client cannot be redirected (C-40)
    BT_CRAB_FALLBACK_NO_CAPABLE, // by the hash: no server that echoes the option (C-43)
    BT_CRAB_FALLBACK_NO_SPACE,   // by the hash: no room for the option (C-8)
    BT_CRAB_FALLBACK_OTHER,      // by the hash: any segment but a SYN (C-41)
    BT_CRAB_FOREIGN_ADDRESS,     // a SYN came with an address in its option already; it was overwritten (C-28)
    BT_CRAB_DUPLICATE_OPTIONS,   // SYNs with more than one valid option (C-3)
    BT_CRAB_MALFORMED_OPTIONS,   // SYNs whose options end in garbage (C-4)
    BT_CRAB_DROP_TRUNCATED,
    BT_CRAB_DROP_HEADER,
    BT_CRAB_DROP_IP_SUM,
    BT_CRAB_DROP_FRAGMENT,
    BT_CRAB_DROP_EXTENSION, // an IPv6 extension header (C-9)
    BT_CRAB_DROP_TTL,
    BT_CRAB_DROP_NOT_A_VIP,
    BT_CRAB_DROP_NO_SERVER, // none is up
    BT_CRAB_DROP_FALLBACK,  // by BT_CRAB_FALLBACK_DROP
    BT_CRAB_COUNTERS
};

struct bt_crab;

size_t bt_crab_bytes(const struct bt_crab_config *cfg);

// mem: bt_crab_bytes(cfg) bytes, aligned to 64. The configuration has been checked and is copied. VIPs have no servers.
struct bt_crab *bt_crab_init(void *mem, size_t bytes, const struct bt_crab_config *cfg);

// Puts `pool` (or NULL: nobody) behind VIP `vip` from the next segment on and returns what stood there; the owner of
// the balancer calls it, between two segments.
struct bt_crab_pool *bt_crab_swap(struct bt_crab *c, unsigned vip, struct bt_crab_pool *pool);

// An IP packet at p.
struct bt_crab_packet {
    uint8_t *p;
    uint32_t len, room; // bytes, and free bytes behind them
    struct bt_addr hop; // where it goes, port 0: written by bt_crab_take
};

// Takes the TCP segment of an IP packet. True: it has been changed, its length too, and goes to pkt->hop. False: drop
// it, the reason is counted.
bool bt_crab_take(struct bt_crab *c, uint64_t now_ns, struct bt_crab_packet *pkt);

// New connections given to each server of `vip` since its pool was put in place are in the pool's own counts; these are
// the balancer's.
const uint64_t *bt_crab_counters(const struct bt_crab *c, const struct bt_counter_desc **desc, unsigned *n);

#endif
