// SPDX-License-Identifier: Apache-2.0
// The IP MTU to use, read from the system. Packets carry don't-fragment, so one that is
// larger than the network takes never leaves; overlay pod networks take less than Ethernet's 1500
// bytes, and how much less differs.
#ifndef BT_IO_MTU_H
#define BT_IO_MTU_H

#include "base/addr.h"

// What every IPv4 host takes, and what packet buffers hold. Results lie in between: loopback's
// 65536 counts as 1500.
#define BT_MTU_MIN 576u
#define BT_MTU_MAX 1500u

// Of a port bound to `local`: the MTU of the interface that owns the address, or that of the default
// route if it leaves from this address and is less (some pod networks put their limit on the
// route). The unspecified address stands for whichever the default route leaves from. 1500 if
// nothing is known.
uint16_t bt_mtu_of(const struct bt_addr *local);

// Of a client that sends to `target`: the route's MTU, or that of the interface it leaves by if that
// is less. `local` may be unspecified, then the kernel chooses it. 1500 if nothing is known, such
// as without a route.
uint16_t bt_mtu_toward(const struct bt_addr *local, const struct bt_addr *target);

// Number of the interface that has this address; 0: none has.
unsigned bt_interface_of(const struct bt_addr *ip);

#endif
