// SPDX-License-Identifier: Apache-2.0
// The only door between the pure core and a network. Every driver (udp.c, sim.c) fills in one
// table of functions; the programs and the simulator hand packets across it and nothing else
// may touch a socket or a clock.
//
// One thread owns an io and calls everything in it, with one exception: wake() may be called by
// any thread. Times are nanoseconds of the driver's own monotonic clock.
#ifndef BT_IO_H
#define BT_IO_H

#include "base/addr.h"
#include "base/counters.h"
#include "base/pkt.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bt_io;

// rx() argument: take from whichever local port has something.
#define BT_IO_ANY UINT32_MAX

// More packets than this in one call only adds latency.
#define BT_IO_BATCH 64u

// A loop that was descheduled finds full batches; it takes up to so many of them before it runs
// timers, because the packets in them are what the timers wait for.
#define BT_IO_TURNS_BEFORE_TIMERS 16u

// A turn that took longer may have been interrupted after it had looked for packets: what arrived meanwhile goes
// before timers, too.
#define BT_IO_PAUSE_NS UINT64_C(1000000)

// wait() argument: no timer is pending.
#define BT_IO_FOREVER UINT64_MAX

// The network said that a datagram sent from port `local` cannot reach `peer` (ICMP or a local
// routing failure). `error` is the errno value the kernel gave for it.
struct bt_io_event {
    struct bt_addr peer;
    uint16_t local;
    int error;
};

struct bt_io_ops {
    // Takes up to `max` packets that arrived at local port `local` (or BT_IO_ANY) into pkts[].
    // The caller owns them. Never blocks. src, dst, local and t_rx_ns are filled in.
    unsigned (*rx)(struct bt_io *io, uint32_t local, struct bt_pkt **pkts, unsigned max);
    // Sends everything in `q` in order and gives the packets back to the pool. `local` selects
    // the port each leaves by; tx_as_src keeps the source address as given (R-4 Transparent).
    // What the network refuses is counted and given back too: q is empty on return.
    void (*tx)(struct bt_io *io, struct bt_txq *q);
    // Blocks (or spins once, as the driver was told) until something arrived, wake() was called
    // or `until_ns` has passed.
    void (*wait)(struct bt_io *io, uint64_t until_ns);
    // The driver's clock.
    uint64_t (*now)(struct bt_io *io);
    // Makes a wait() in progress, or the next one, return at once. Any thread.
    void (*wake)(struct bt_io *io);
    // Takes up to `max` unreachable events. Drivers that were not asked to report give none.
    unsigned (*events)(struct bt_io *io, struct bt_io_event *ev, unsigned max);
    // The address bound to local port `local`.
    struct bt_addr (*local)(struct bt_io *io, uint32_t local);
    // The driver's counters, `*n` of them, described by `*desc` in the same order.
    const uint64_t *(*counters)(struct bt_io *io, const struct bt_counter_desc **desc, unsigned *n);
    void (*close)(struct bt_io *io);
    // NULL when the driver has no such thing. `on`: packets at port `local` no longer end a wait();
    // the next rx() of that port after a wait() finds them, with the time they arrived in t_rx_ns.
    // For packets that are only of use together with others: each spared wake-up spares two
    // context switches and often an interrupt of another processor.
    void (*quiet)(struct bt_io *io, uint32_t local, bool on);
    // NULL when the driver has no such thing. Writes down at most `max` descriptors that become readable when packets
    // arrive, and returns how many there are; 0: this io has none. From then on threads may sleep on them instead of in
    // wait(), and rx() looks at every port without having been told by wait().
    unsigned (*watch)(struct bt_io *io, int *fds, unsigned max);
    // When the driver's own timers want rx(), though no packet comes; UINT64_MAX: not. Asked by who called rx() and
    // tx() last, of drivers that threads sleep on in this way. NULL: never.
    uint64_t (*next)(struct bt_io *io);
};

struct bt_io {
    const struct bt_io_ops *ops;
};

static inline unsigned bt_io_rx(struct bt_io *io, uint32_t local, struct bt_pkt **pkts, unsigned max)
{
    return io->ops->rx(io, local, pkts, max);
}

static inline void bt_io_tx(struct bt_io *io, struct bt_txq *q)
{
    if (q->n != 0) {
        io->ops->tx(io, q);
    }
}

static inline void bt_io_wait(struct bt_io *io, uint64_t until_ns)
{
    io->ops->wait(io, until_ns);
}

static inline uint64_t bt_io_now(struct bt_io *io)
{
    return io->ops->now(io);
}

static inline void bt_io_quiet(struct bt_io *io, uint32_t local, bool on)
{
    if (io->ops->quiet != NULL) {
        io->ops->quiet(io, local, on);
    }
}

static inline uint64_t bt_io_next(struct bt_io *io)
{
    return io->ops->next != NULL ? io->ops->next(io) : UINT64_MAX;
}

static inline void bt_io_wake(struct bt_io *io)
{
    io->ops->wake(io);
}

#endif
