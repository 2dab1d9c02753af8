// SPDX-License-Identifier: Apache-2.0
// The one place where a program's options become a network: Linux sockets, or a DPDK port (docs/guides/dpdk.md). A
// program opens the network once and then one io per thread; packets of a thread come from its own pool.
#ifndef BT_APPS_NETWORK_H
#define BT_APPS_NETWORK_H

#include "ctl/ctl.h"
#include "io/io.h"
#include "shell/cli.h"
#include "shell/cpus.h"

#include <stddef.h>

enum bt_network_driver { BT_NETWORK_UDP, BT_NETWORK_DPDK };
// BLOCK: another word for SLEEP, which bt_network_check makes of it.
enum bt_network_idle { BT_NETWORK_AUTO, BT_NETWORK_SLEEP, BT_NETWORK_SPIN, BT_NETWORK_YIELD, BT_NETWORK_BLOCK };

#define BT_NETWORK_THREADS 16u

struct bt_network_options {
    int driver; // enum bt_network_driver
    int idle;   // enum bt_network_idle
    int hugepages, checksums;
    const char *port, *eal, *gateway;
    const char *pci_file;                         // beside --dpdk-port=env:NAME: the address that network-status tells
    uint32_t prefix, memory_mib, buffers, queues; // 0: auto
    uint64_t link_wait_ns;
    const char *cpu_list;
    struct bt_cpus cpus; // of cpu_list, by bt_network_check
    bool takes_tcp;      // no option: the program wants TCP packets whole (io/dpdk.h)
};

// At most so many rows does a table get.
#define BT_NETWORK_ROWS 15u

struct bt_network_options bt_network_defaults(void);

// Writes the option rows of the network, --idle and --cpus among them; returns how many.
size_t bt_network_rows(struct bt_network_options *o, struct bt_cli_option *rows);

// What a table cannot check, for a program with so many threads that can be pinned; `own` is the address it was given.
// Reports and returns false.
bool bt_network_check(const struct bt_cli *p, struct bt_network_options *o, const struct bt_addr *own,
                      unsigned threads);

struct bt_network;

// Opens the network for a program with that address and so many threads, each of which may need `buffers` packets
// at most (DPDK has its own number: --dpdk-buffers). NULL: it was logged why.
struct bt_network *bt_network_open(const struct bt_network_options *o, const struct bt_addr *own, unsigned threads,
                                   uint32_t buffers);

// Thread t's packets: get and put in that thread only (DPDK: in any).
struct bt_pool *bt_network_pool(struct bt_network *n, unsigned t);

struct bt_network_ports {
    const struct bt_addr *locals;
    unsigned n;
    bool report_unreachable; // what cannot be reached becomes an event (io/io.h)
};

// Opens thread t's io on these local ports; NULL with the reason in err.
struct bt_io *bt_network_io(struct bt_network *n, unsigned t, const struct bt_network_ports *ports, char *err,
                            size_t errlen);

// Makes an io send under foreign addresses (R-4 Transparent); -1 with the reason in err.
int bt_network_allow_transparent(struct bt_network *n, struct bt_io *io, char *err, size_t errlen);

// The IP MTU to use: `asked`, or, when that is 0, the device's; 0 if only the kernel's routes know (io/mtu.h). False,
// logged: the device does not take what was asked for.
bool bt_network_mtu(const struct bt_network *n, uint32_t asked, uint16_t *mtu);

// What the network's device is; nothing is written of Linux sockets. Call it in the thread that started the program.
void bt_network_describe(const struct bt_network *n, const struct bt_network_options *o, struct bt_ctl_device *out);

// The device as it was described, with what its link is now. `n` may be NULL.
void bt_network_look(const struct bt_network *n, const struct bt_ctl_device *described, struct bt_ctl_device *out);

// Packets in use in all threads.
uint32_t bt_network_in_use(const struct bt_network *n);

// After the ios are closed.
void bt_network_close(struct bt_network *n);

#endif
