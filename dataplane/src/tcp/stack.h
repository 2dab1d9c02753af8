// SPDX-License-Identifier: Apache-2.0
// TCP past the kernel: lwIP behind a table of functions. A stack takes IP packets and gives IP packets; it knows no
// device, no clock and no thread. lwIP keeps its state in globals, so each stack is a copy of its code linked under
// names of its own (docs/decisions/0032): as many stacks as there are copies, each for whoever holds it, one thread at
// a time.
#ifndef BT_TCP_STACK_H
#define BT_TCP_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/counters.h"
#include "base/pkt.h"

struct bt_tcp_conn;

// Told inside rx, tick and flush; nothing of the table but `own` may be called from there.
struct bt_tcp_owner {
    // A connection is there; what it is to its owner, or NULL: it is reset.
    void *(*accepted)(void *arg, struct bt_tcp_conn *c, const struct bt_addr *peer);
    void (*received)(void *own, const uint8_t *bytes, uint32_t n);
    void (*room)(void *own);   // the peer has acknowledged something
    void (*ended)(void *own);  // nothing more comes
    void (*gone)(void *own);   // reset, or given up: the connection is no more
    void (*opened)(void *own); // one that was asked for by connect
    // Of a connection whose window says tokens (F-30 to F-34): the 16 bits that a segment takes along, and those that
    // came with one. own NULL: the handshake is not over. NULL functions: no such connections.
    uint16_t (*signal)(void *arg, void *own);
    void (*signalled)(void *own, uint16_t bits);
    void *arg;
};

struct bt_tcp_setup {
    struct bt_addr local; // own address; port: where connections are taken, 0: nowhere
    struct bt_addr extra; // a second own address of the other family; unspecified: none
    uint16_t mtu;         // of the IP network
    uint16_t tx_local;    // bt_pkt.local of what is sent
    uint32_t half_open;   // at most so many handshakes at once; 0: BT_TCP_HALF_OPEN
    uint8_t key[16];      // of the first sequence numbers
    bool asks;            // connect asks for a window of tokens
    struct bt_pool *pool; // of packets in both directions
    struct bt_txq *out;   // what is to be sent is pushed here
    struct bt_tcp_owner owner;
};

enum bt_tcp_counter {
    BT_TCP_SEGMENTS_IN,
    BT_TCP_SEGMENTS_OUT,
    BT_TCP_RESENT, // of these: once more
    BT_TCP_ACCEPTED,
    BT_TCP_FLOW_CONNS,     // of these: with a window of tokens
    BT_TCP_FLOW_REFUSED,   // asked for it in another version, or with a scaled window
    BT_TCP_BAD_OPTIONS,    // SYN whose options end in garbage
    BT_TCP_HALF_OPEN_LOST, // handshakes that gave way to younger ones
    BT_TCP_PROBES,         // of a window that is closed
    // Segments that were dropped, or of which nothing was taken:
    BT_TCP_DROP_SUM,
    BT_TCP_DROP_HEADER,
    BT_TCP_DROP_WINDOW,  // beyond what may come
    BT_TCP_DROP_OLD,     // came before
    BT_TCP_DROP_UNKNOWN, // of no connection: answered by a reset
    BT_TCP_DROP_MEMORY,
    BT_TCP_DROP_HELD,    // out of order, and too many were
    BT_TCP_TX_NO_BUFFER, // not sent: no packet was free
    BT_TCP_COUNTERS
};
extern const struct bt_counter_desc bt_tcp_counter_desc[BT_TCP_COUNTERS];

struct bt_tcp_stack {
    // False with a sentence in err. Once at a time; all packets are back after close.
    bool (*open)(const struct bt_tcp_setup *setup, uint64_t now, char *err, size_t errlen);
    void (*close)(void);
    // Takes a packet that begins with its IP header.
    void (*rx)(struct bt_pkt *pkt, uint64_t now);
    // Runs timers that are due; when it wants that next, UINT64_MAX: not.
    void (*tick)(uint64_t now);
    uint64_t (*next)(void);
    // Sends what was written since, in as few segments as there can be.
    void (*flush)(uint64_t now);
    void (*end_listening)(void);
    // NULL: no memory. `own` is told opened, or gone.
    struct bt_tcp_conn *(*connect)(const struct bt_addr *to, void *own, uint64_t now);
    // As much as there is room for; the owner is told `room` when there is more.
    uint32_t (*write)(struct bt_tcp_conn *c, const uint8_t *bytes, uint32_t n);
    // So many of the bytes received are taken: the window opens again.
    void (*taken)(struct bt_tcp_conn *c, uint32_t n);
    // The owner is not told anything of it any more. end: what was written still arrives; otherwise a reset.
    void (*end)(struct bt_tcp_conn *c);
    void (*reset)(struct bt_tcp_conn *c);
    // Its window says tokens.
    bool (*tokens)(const struct bt_tcp_conn *c);
    const uint64_t *(*counters)(void);
    uint32_t (*open_now)(void); // connections, those that are closing or half open included
};

// A copy nobody has, or NULL: all are taken.
const struct bt_tcp_stack *bt_tcp_stack_take(void);
void bt_tcp_stack_give(const struct bt_tcp_stack *stack);
#define BT_TCP_COPIES 16u

#endif
