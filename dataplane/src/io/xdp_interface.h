// SPDX-License-Identifier: Apache-2.0
// A kernel interface as an AF_XDP port finds and leaves it: the XDP program attached to it, and a mark that outlives
// the process. The kernel keeps a program attached when its process is killed; without the mark the next process could
// not tell a leftover of ours, which it may remove, from somebody else's program, which it must not. The mark is the
// interface's alias (ip link shows it); it needs CAP_NET_ADMIN, as attaching does.
#ifndef BT_IO_XDP_INTERFACE_H
#define BT_IO_XDP_INTERFACE_H

#include <stdbool.h>
#include <stdint.h>

#define BT_XDP_MARK "bobtail-af-xdp"

struct bt_xdp_interface {
    uint32_t program; // its id; 0: none
    bool marked;
    bool named; // its alias is somebody else's
};

// All of them: 0, or the negative errno value of the kernel's refusal.
int bt_xdp_look(unsigned ifindex, struct bt_xdp_interface *found);
int bt_xdp_mark(unsigned ifindex, bool on);
int bt_xdp_detach(unsigned ifindex);

// Who has the interface, as long as he lives: a name in the network namespace that goes with its process. The file
// descriptor to close when done, or -EADDRINUSE: another process has it.
int bt_xdp_claim(unsigned ifindex);

#endif
