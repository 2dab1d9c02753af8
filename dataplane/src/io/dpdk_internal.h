// SPDX-License-Identifier: Apache-2.0
// State of the DPDK driver shared by its files: environment (dpdk_eal.c), buffers (dpdk_pool.c), port
// (dpdk_port.c), device (dpdk_device.c), steering (dpdk_steer.c, dpdk_flow.c), receive (dpdk_rx.c), send
// (dpdk_tx.c), waiting (dpdk_idle.c), counters (dpdk_counters.c) and the io itself (dpdk.c).
#ifndef BT_IO_DPDK_INTERNAL_H
#define BT_IO_DPDK_INTERNAL_H

#include "base/toeplitz.h"
#include "io/dpdk.h"

#include <stdio.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_ring.h>
#include <rte_spinlock.h>
#include <stdatomic.h>

struct bt_dpdk;

// Handed over and not yet taken, per io; the power of two a batch of 16 full bursts needs.
#define BT_DPDK_HANDOVER 1024u
// Received and not yet asked for, per io: then the device's queue has to hold the rest.
#define BT_DPDK_INBOX 256u

enum bt_dpdk_counter {
    BT_DPDK_RX_PACKETS,
    BT_DPDK_TX_PACKETS,
    BT_DPDK_RX_TOO_LONG,     // frame of several buffers, or longer than one holds
    BT_DPDK_RX_NO_BUFFER,    // a packet that had to be copied found no buffer
    BT_DPDK_RX_HANDOVER,     // the io it was for did not keep up
    BT_DPDK_RX_DEVICE_FULL,  // of the port: queue overflow (imissed)
    BT_DPDK_RX_DEVICE_NOBUF, // of the port: attempts to fill its queue without a buffer (rx_nombuf)
    BT_DPDK_RX_DEVICE_ERROR, // of the port: ierrors
    BT_DPDK_TX_NO_SPACE,     // the device's queue stayed full
    BT_DPDK_TX_LINK_DOWN,
    BT_DPDK_TX_LOST,         // the device is gone
    BT_DPDK_TX_REFUSED,      // rte_eth_tx_prepare would not have it
    BT_DPDK_TX_DEVICE_ERROR, // of the port: oerrors
    BT_DPDK_UNREACHABLE,     // events, reported or not
    BT_DPDK_RX_COPIED,       // foreign buffers
    BT_DPDK_RX_HANDED_OVER,  // to another io
    BT_DPDK_WAKEUPS,         // returns from a sleep
    BT_DPDK_COUNTERS
};

struct bt_dpdk_device {
    uint16_t port;
    bool probed, pci;
    bool client;         // a memif client, which has to look for its server again when that is gone
    unsigned patience;   // looks until a client that waits for its connection starts anew
    atomic_bool running; // started; what is not is not touched by receive and send
    atomic_int loss;     // enum bt_dpdk_loss
    atomic_bool carrier, interface_down;
    atomic_bool wanted, removed;               // what DPDK's interrupt thread heard
    unsigned interface;                        // of the kernel that the port stands on, by index; 0: none
    char name[RTE_DEV_NAME_MAX_LEN], what[64]; // DPDK's for it, and ours
    bt_dpdk_lost lost;
    struct rte_mempool *buffers;
    bool own_buffers;
    bool keeps_buffers;     // a driver that never gives back what its queues hold (af_xdp: they are its umem)
    unsigned held_at_start; // by the device's queues
    unsigned xdp_interface; // of a port on af_xdp, by index; 0: none
    int xdp_claim, xdp_object;
    bool xdp_marked;
    struct bt_pool pool;
    uint8_t mac[6];
    uint16_t mtu;
    bool tx_ip_sum, tx_udp_sum, rx_sums; // done by the device
    bool interrupts;                     // receive interrupts work
    int socket[BT_DPDK_MAX_QUEUES];      // of a driver on sockets of the kernel: readable when a packet came
    unsigned n_sockets;
    uint16_t n_queues;
    unsigned n_ios;                       // room for so many
    uint8_t flow_io[BT_TOEPLITZ_ENTRIES]; // of a TCP flow, by its hash: as a card's table has its queues
    enum bt_dpdk_idle idle;
    uint64_t seed;
    bt_dpdk_log log;
    struct bt_link_prefix addrs[BT_LINK_MAX_ADDRS];
    struct bt_link_static *statics;
    struct bt_link_config link;                 // what every io's link has in common
    rte_spinlock_t tx_lock[BT_DPDK_MAX_QUEUES]; // taken only where several ios send by one queue
    struct bt_dpdk *_Atomic io[BT_DPDK_MAX_IOS];
    struct bt_dpdk *_Atomic *listener; // [65536]: who listens to a UDP port
};

// How a thread that waits is woken: `asked` is set first, then, if it sleeps, the eventfd is written.
struct bt_dpdk_bell {
    atomic_bool asked, asleep;
    int fd;
};

struct bt_dpdk_port {
    struct bt_txq inbox;
    uint32_t next_ready; // list of ports with packets, by index
};

struct bt_dpdk {
    struct bt_io io; // first
    struct bt_dpdk_device *dev;
    struct bt_link *link;
    void *link_mem;
    unsigned index;                        // among the device's ios
    uint16_t tx_queue;                     // queue it sends by
    bool tx_shared;                        // with other ios: there are fewer queues
    uint16_t rx_queue[BT_DPDK_MAX_QUEUES]; // queues it polls
    unsigned n_rx, next_rx;
    bool registered; // thread registration was tried
    unsigned lcore;  // the number it got, LCORE_ID_ANY if none
    bool report;
    struct rte_ring *handed; // frames other ios received for us
    struct rte_flow *flow[BT_LINK_MAX_LOCALS];
    unsigned n_flows;

    unsigned n_ports;
    struct bt_dpdk_port *ports;
    uint32_t ready_head, ready_tail; // ports with packets; BT_IO_ANY takes from them in turn
    unsigned pending;                // in all inboxes

    struct bt_txq out; // frames to send
    struct bt_dpdk_bell bell;
    uint64_t now_ns;     // of the last look
    uint64_t last_rx_ns; // when a packet was there
    uint64_t look_ns;    // when to ask for the carrier next
    bool carrier;
    bool slack_set;
    int intr_fd[BT_DPDK_MAX_QUEUES];

    struct bt_counter_desc *descs;
    uint64_t *exported;
    uint64_t counters[BT_DPDK_COUNTERS];
};

static inline struct bt_dpdk *bt_dpdk_of(struct bt_io *io)
{
    return (struct bt_dpdk *)io;
}

static inline struct bt_pkt *bt_dpdk_pkt(struct rte_mbuf *m)
{
    return rte_mbuf_to_priv(m);
}

static inline struct rte_mbuf *bt_dpdk_mbuf(struct bt_pkt *p)
{
    return (struct rte_mbuf *)(void *)((char *)p - sizeof(struct rte_mbuf));
}

uint64_t bt_dpdk_now(struct bt_io *io);

// Says one line, if anybody listens.
void bt_dpdk_say(bt_dpdk_log log, const char *format, ...) __attribute__((format(printf, 2, 3)));

// dpdk_pool.c
// One without room between buffers, for a driver that counts on that (af_xdp). Its buffers have no address for a
// device.
struct rte_mempool *bt_dpdk_pool_dense(const char *name, uint32_t buffers);
void bt_dpdk_pool_interface(struct bt_dpdk_device *dev);
// Bytes in front of the data of an empty packet.
#define BT_DPDK_HEADROOM (RTE_PKTMBUF_HEADROOM + 64u)

// dpdk_port.c
// The name a port has in DPDK: what stands before the first comma, a PCI address with its domain in lower case.
void bt_dpdk_port_name(const char *port, char *name, size_t len);
// DPDK's driver says EINVAL of all of it.
#define BT_DPDK_XDP_NEEDS                                                                                              \
    "; af_xdp needs CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF, and CAP_IPC_LOCK or a limit of locked memory that its "       \
    "buffers fit in (ulimit -l)"

// Of a port on af_xdp: `with` is the port with the XDP program it shall take; of any other the port as it is. -1 and
// err where its interface is somebody else's. The end takes everything back, when the port is closed.
int bt_dpdk_xdp_prepare(struct bt_dpdk_device *dev, const char *port, char *with, size_t len, char *err, size_t errlen);
void bt_dpdk_xdp_close(struct bt_dpdk_device *dev);

int bt_dpdk_port_open(struct bt_dpdk_device *dev, const struct bt_dpdk_device_config *cfg, char *err, size_t errlen);
void bt_dpdk_port_close(struct bt_dpdk_device *dev);
// Tries to find the server of a memif client again; one thread only.
void bt_dpdk_port_reconnect(struct bt_dpdk_device *dev);

// dpdk_lost.c: from here to the end DPDK and the kernel are asked whether the device is still there.
void bt_dpdk_lost_begin(struct bt_dpdk_device *dev, const struct bt_dpdk_device_config *cfg);
void bt_dpdk_lost_look(struct bt_dpdk_device *dev);
void bt_dpdk_lost_end(struct bt_dpdk_device *dev);

// dpdk_steer.c: which io a frame is for.
// A copy of the local ports, to be freed, in which each 0 is a port that nobody on the device listens to: the link of
// one io knows only its own. NULL with the reason in err.
struct bt_addr *bt_dpdk_choose_ports(const struct bt_dpdk *d, const struct bt_dpdk_config *cfg, char *err,
                                     size_t errlen);
int bt_dpdk_listen(struct bt_dpdk *d, char *err, size_t errlen);
void bt_dpdk_unlisten(struct bt_dpdk *d);
// Hands frames that belong elsewhere over; returns how many of the n stay, in order, at the front of frames[].
unsigned bt_dpdk_dispatch(struct bt_dpdk *d, struct bt_pkt **frames, unsigned n);

// dpdk_flow.c: the same by the device, as far as it can.
void bt_dpdk_flow_add(struct bt_dpdk *d);
void bt_dpdk_flow_remove(struct bt_dpdk *d);

// dpdk_rx.c
unsigned bt_dpdk_rx(struct bt_io *io, uint32_t local, struct bt_pkt **pkts, unsigned max);
// Looks once at the hand-over ring and the queues; true if packets for the ports came.
bool bt_dpdk_look(struct bt_dpdk *d);
void bt_dpdk_rx_flush(struct bt_dpdk *d);

// dpdk_tx.c
void bt_dpdk_tx(struct bt_io *io, struct bt_txq *q);
// Sends the frames of d->out.
void bt_dpdk_flush(struct bt_dpdk *d);

// dpdk_idle.c
int bt_dpdk_bell_open(struct bt_dpdk_bell *bell);
// Both around the making of a port: which descriptors were there, and which of the new ones are its sockets.
struct bt_dpdk_descriptors {
    uint64_t there[16];
};
void bt_dpdk_sockets_before(struct bt_dpdk_descriptors *before);
void bt_dpdk_sockets_after(struct bt_dpdk_device *dev, const struct bt_dpdk_descriptors *before);
unsigned bt_dpdk_watch(struct bt_io *io, int *fds, unsigned max);
uint64_t bt_dpdk_next(struct bt_io *io); // the timers of the link, and the carrier

void bt_dpdk_ring_bell(struct bt_dpdk_bell *bell);
void bt_dpdk_wait(struct bt_io *io, uint64_t until_ns);
void bt_dpdk_wake(struct bt_io *io);
void bt_dpdk_interrupts_open(struct bt_dpdk *d);

// dpdk_counters.c
int bt_dpdk_counters_open(struct bt_dpdk *d);
const uint64_t *bt_dpdk_counters(struct bt_io *io, const struct bt_counter_desc **desc, unsigned *n);

// dpdk_hugepages.c: MiB that the machine has free, of all sizes; and of so many, those that this process really gets.
uint64_t bt_dpdk_free_hugepages(void);
// dpdk_pci.c: where the kernel shows PCI devices and the groups that vfio hands over; and what stands against the
// device `name` (dddd:bb:dd.f) there, which begins with "; ", or nothing.
struct bt_dpdk_places {
    const char *devices, *groups;
};
extern const struct bt_dpdk_places bt_dpdk_kernel;
void bt_dpdk_pci_hint(const struct bt_dpdk_places *at, const char *name, char *text, size_t len);
// dpdk_eal.c: MiB of hugepages that DPDK was started with.
uint32_t bt_dpdk_hugepages_mib(void);
uint64_t bt_dpdk_usable_hugepages(uint64_t want_mib);
// dpdk_numa.c: whether this process may say on which NUMA node its memory lies; and where some of it does, by the
// kernel, or by a text like its numa_maps; -1: nobody tells.
bool bt_dpdk_may_choose_nodes(void);
int bt_dpdk_node_of(const void *memory);
int bt_dpdk_node_in(FILE *maps, uintptr_t at);

#endif
