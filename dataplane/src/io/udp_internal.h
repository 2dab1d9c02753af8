// SPDX-License-Identifier: Apache-2.0
// State of the UDP driver shared by its files: open/wait (udp.c), receive (udp_rx.c),
// send (udp_tx.c) and the error queue (udp_events.c).
#ifndef BT_IO_UDP_INTERNAL_H
#define BT_IO_UDP_INTERNAL_H

#include "io/udp.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>

#define BT_UDP_EVENTS 256u // unreachable events kept until asked for

struct bt_udp_port {
    int fd;
    sa_family_t family;
    bool readable;       // epoll said so, or the last read filled its batch
    bool watched;        // others are told when it has something, so that each read looks
    bool quiet;          // its packets do not end a wait
    bool stamped;        // the kernel writes down when its packets arrived
    uint32_t rxq_ovfl;   // last SO_RXQ_OVFL value seen
    uint64_t emptied_ns; // when its socket was last read until it was empty
    struct bt_addr addr; // as bound
};

union bt_udp_sa {
    struct sockaddr sa;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

// Descriptors of one system call. Preparing them costs as much as a short call, so what never changes is set once.
struct bt_udp_batch {
    struct mmsghdr msgs[BT_IO_BATCH];
    struct iovec iov[BT_IO_BATCH];
    union bt_udp_sa names[BT_IO_BATCH];
};

// Packets of one message, which the kernel cuts apart: equal in destination and length, the last may be shorter.
struct bt_udp_segments {
    unsigned n;     // 1: an ordinary message
    unsigned first; // in iov[]
    uint32_t bytes;
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(uint16_t))];
};

// Room for what a datagram may bring along: drops so far, its time of arrival, its hop count.
#define CONTROL_BYTES (CMSG_SPACE(sizeof(uint32_t)) + CMSG_SPACE(sizeof(struct timespec)) + CMSG_SPACE(sizeof(int)))

struct bt_udp {
    struct bt_io io; // first, so that &u->io is the interface
    struct bt_pool *pool;
    enum bt_idle idle;
    int epoll_fd, timer_fd, wake_fd;
    int raw_fd[2]; // of IPv4 and IPv6, -1 until Transparent is allowed (and where no port has that family)
    uint16_t raw_id;
    uint64_t armed_ns; // what timer_fd is set to, BT_IO_FOREVER if disarmed
    unsigned n_ports;
    unsigned n_quiet;   // ports that are quiet
    unsigned next_port; // where BT_IO_ANY looks first, so that no port starves
    struct bt_udp_port *ports;

    // Receive side: packets whose descriptors are ready to be filled, kept over calls; the first n_stale of them
    // were handed out or written to by the last one.
    struct bt_pkt *spare[BT_IO_BATCH];
    unsigned n_spare, n_stale;
    struct bt_udp_batch rx;
    _Alignas(struct cmsghdr) uint8_t control[BT_IO_BATCH][CONTROL_BYTES];

    struct bt_udp_batch tx; // of one send at a time; iov[] holds a packet each, several of them may be one message
    struct bt_udp_segments segments[BT_IO_BATCH]; // of message i
    bool no_segments;                             // the kernel, or a device on the way, does not cut them

    struct bt_io_event events[BT_UDP_EVENTS];
    unsigned n_events;
    uint64_t counters[BT_UDP_COUNTERS];
};

uint64_t bt_udp_now(struct bt_io *io);
unsigned bt_udp_rx(struct bt_io *io, uint32_t local, struct bt_pkt **pkts, unsigned max);
void bt_udp_tx(struct bt_io *io, struct bt_txq *q);
// Points every message at its own iovec and name.
void bt_udp_batch_init(struct bt_udp_batch *b);

void bt_udp_quiet(struct bt_io *io, uint32_t local, bool on);
unsigned bt_udp_take_events(struct bt_io *io, struct bt_io_event *ev, unsigned max);

// Empties the error queue of a port into u->events and clears the socket's pending error.
void bt_udp_read_errors(struct bt_udp *u, unsigned port);

// 0, or -1 when an IPv4 socket cannot reach an IPv6 address.
int bt_udp_to_sockaddr(const struct bt_addr *a, sa_family_t family, union bt_udp_sa *out, socklen_t *len);
struct bt_addr bt_udp_from_sockaddr(const union bt_udp_sa *sa);

// Writes IP and UDP headers of a packet that is sent under its own source address into head, checksums
// included. Returns their length; 0 when the addresses are of two families or the packet is too long.
#define BT_UDP_RAW_HEAD 48u
uint32_t bt_udp_raw_header(const struct bt_pkt *pkt, uint16_t ip_id, uint8_t head[BT_UDP_RAW_HEAD]);

#endif
