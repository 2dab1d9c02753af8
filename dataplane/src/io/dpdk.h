// SPDX-License-Identifier: Apache-2.0
// The DPDK driver: any port a poll-mode driver serves, by virtual device ("net_memif0,role=client,socket=/run/m"),
// PCI address ("0000:05:00.0") or the name of a port the process already made (rte_eth_from_rings). What lies
// between frames and UDP payloads is src/link; here are ports, queues, buffers, idling and the hand-over of packets
// between threads.
//
//   bt_dpdk_start     once per process: DPDK's environment (EAL)
//   bt_dpdk_device    one port: its queues, its packet buffers, its addresses
//   bt_dpdk_open      an io (io.h) on a device: some local UDP ports, owned by one thread; several per device
//
// Threads: start, device_open, open and close run one after the other, in any thread; each io then belongs to one
// thread. The pool of a device may be used by every thread; threads that own an io have a cache of their own in it.
//
// A benchmark drives the router through the same calls: make a pair of ring ports with a pool from
// bt_dpdk_pool_new(), hand the port's name to bt_dpdk_device_open(), open one io, call rx and tx. Buffers that come
// from another pool must have BT_DPDK_PRIV_BYTES of private area, or each packet is copied on arrival.
#ifndef BT_IO_DPDK_H
#define BT_IO_DPDK_H

#include "io/io.h"
#include "link/link.h"

#include <stdbool.h>
#include <stddef.h>

struct bt_dpdk_device;
struct rte_mempool;

// What wait() does when nothing is there. Two spinners on one core starve each other for whole scheduler slices.
enum bt_dpdk_idle {
    BT_DPDK_IDLE_AUTO,  // SPIN behind PCI, YIELD elsewhere
    BT_DPDK_IDLE_SLEEP, // look for some 20 us, then sleep: on an interrupt if the device has them, or a nap at a time
    BT_DPDK_IDLE_SPIN,  // look and return
    BT_DPDK_IDLE_YIELD, // look, give the core away in between; after 2 ms without a packet as SLEEP
};

enum bt_dpdk_hugepages {
    BT_DPDK_HUGEPAGES_AUTO, // use them if enough are free
    BT_DPDK_HUGEPAGES_ON,
    BT_DPDK_HUGEPAGES_OFF,
};

typedef void (*bt_dpdk_log)(const char *line);

// How a device can be taken from under a running program.
enum bt_dpdk_loss {
    BT_DPDK_KEPT,   // it was not
    BT_DPDK_WANTED, // its driver wants it back and waits for that: it works until the device is closed
    BT_DPDK_GONE,   // it is no more
};
typedef void (*bt_dpdk_lost)(enum bt_dpdk_loss loss, const char *why);

struct bt_dpdk_eal {
    const char *port;  // decides whether the PCI bus is looked at, and for which device only
    const char *extra; // further EAL arguments, separated by blanks; they win. May be NULL
    // "2,3": threads that use its ios will be pinned there, so DPDK keeps its own off, if it may run elsewhere. NULL or
    // empty: they float.
    const char *cpus;
    enum bt_dpdk_hugepages hugepages;
    uint32_t memory_mib; // 0: as bt_dpdk_memory() says for `buffers`; more if ports are made elsewhere
    uint32_t buffers;    // of all devices together
    bt_dpdk_log log;     // one line per event worth knowing; may be NULL
};

// Starts DPDK. Once per process: a second call is a success that changes nothing. Returns 0, or -1 with the reason.
int bt_dpdk_start(const struct bt_dpdk_eal *cfg, char *err, size_t errlen);

// Memory in MiB that so many packet buffers and their queues need, in hugepages or ordinary pages.
uint32_t bt_dpdk_memory(uint32_t buffers, bool huge);

// True for a PCI address (domain:bus:device.function, domain optional, device arguments may follow).
bool bt_dpdk_is_pci(const char *port);

#define BT_DPDK_MAX_IOS         16u
#define BT_DPDK_MAX_QUEUES      16u
#define BT_DPDK_DEFAULT_BUFFERS 16384u

// True for a port on af_xdp. One on af_packet gets trains uncut, which an unfinished sum would let pass as one
// datagram.
bool bt_dpdk_is_interface(const char *port);

// The name after ",iface=" in a port's arguments; false: none there.
bool bt_dpdk_interface_name(const char *port, char *name, size_t len);

// At least so many bytes of private area has a buffer that travels through without a copy.
#define BT_DPDK_PRIV_BYTES ((sizeof(struct bt_pkt) + 63u) & ~(size_t)63u)

// What is believed of arriving UDP checksums, and sent.
enum bt_dpdk_checksums {
    BT_DPDK_CHECKSUMS_AUTO,       // UNFINISHED on af_xdp, else FULL
    BT_DPDK_CHECKSUMS_FULL,       // those that are right
    BT_DPDK_CHECKSUMS_UNFINISHED, // those, too, that the sending kernel left to a device: on a veth none follows (E-23)
    BT_DPDK_CHECKSUMS_NONE,       // any, and none is sent over IPv4: for memory transports, which do not damage bits
};

struct bt_dpdk_device_config {
    const char *port; // see above
    const struct bt_link_prefix *addrs;
    unsigned n_addrs;
    struct bt_addr gateway4, gateway6; // zeroed: none
    const struct bt_link_static *statics;
    unsigned n_statics;
    uint16_t mtu;     // 0: the device's, at most 1500
    unsigned ios;     // how many will be opened; 0: 1
    unsigned queues;  // 0: behind PCI one per io, of ring, af_packet and af_xdp all there are, else one
    uint32_t buffers; // packet buffers; 0: BT_DPDK_DEFAULT_BUFFERS
    uint16_t ring;    // descriptors per queue; 0: 1024, fitted to what the device takes
    enum bt_dpdk_checksums checksums;
    bool takes_tcp; // TCP for own addresses comes whole, at local port n_locals (link.h); of several ios that of its
                    // flow
    uint32_t link_wait_ms; // how long opening waits for the carrier; 0: not at all
    enum bt_dpdk_idle idle;
    uint64_t neighbour_retry_ns; // between two requests for a neighbour's MAC; 0: 1 s, 3 tries
    uint64_t seed;
    struct rte_mempool *buffers_of; // use this pool instead of making one; may be NULL
    bt_dpdk_log log;
    // Told once of each loss, in a thread that has an io, at most a second later. May be NULL.
    bt_dpdk_lost lost;
};

// Opens and starts the port, or returns NULL and says in err which setting was refused, why, and what to do.
struct bt_dpdk_device *bt_dpdk_device_open(const struct bt_dpdk_device_config *cfg, char *err, size_t errlen);

// Stops the port and frees everything; close its ios first. Returns how many packet buffers never came back: 0,
// unless somebody still holds packets.
unsigned bt_dpdk_device_close(struct bt_dpdk_device *dev);

// Packets from here fit any io of the device. Any thread.
struct bt_pool *bt_dpdk_pool(struct bt_dpdk_device *dev);

// Buffers in use now, those waiting in device queues included.
unsigned bt_dpdk_in_use(const struct bt_dpdk_device *dev);

// The IP MTU in use, and the port's own MAC.
uint16_t bt_dpdk_mtu(const struct bt_dpdk_device *dev);
void bt_dpdk_mac(const struct bt_dpdk_device *dev, uint8_t mac[6]);

// What a device turned out to be. Nodes are those of NUMA; -1: nobody knows.
struct bt_dpdk_facts {
    char driver[32];
    int device_node, memory_node;
    uint32_t hugepages_mib; // that DPDK was started with; 0: ordinary memory
};
void bt_dpdk_describe(const struct bt_dpdk_device *dev, struct bt_dpdk_facts *out);
bool bt_dpdk_link_up(const struct bt_dpdk_device *dev);

// What its first io knows of the device since its last look, at most a second ago. Any thread.
enum bt_dpdk_loss bt_dpdk_loss(const struct bt_dpdk_device *dev);
bool bt_dpdk_carrier(const struct bt_dpdk_device *dev);

// Whether what a port stands on is not there: the kernel has no such PCI device, or no such interface.
bool bt_dpdk_absent(const char *port);

// A pool whose buffers travel without copies; for ports that are made elsewhere. NULL: no memory.
struct rte_mempool *bt_dpdk_pool_new(const char *name, uint32_t buffers);

struct bt_dpdk_config {
    const struct bt_addr *locals; // index = bt_pkt.local; unspecified IP: the device's; port 0: a free one
    unsigned n_locals;            // 1..BT_LINK_MAX_LOCALS
    bool report_unreachable;      // turn ICMP errors and unanswered neighbour requests into events
};

// An io on the device. A UDP port belongs to one io of the device only. The first io opened polls the queues that
// have no io of their own and hands packets on; close it last.
struct bt_io *bt_dpdk_open(struct bt_dpdk_device *dev, const struct bt_dpdk_config *cfg, char *err, size_t errlen);

#endif
