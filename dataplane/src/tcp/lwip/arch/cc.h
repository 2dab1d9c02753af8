// SPDX-License-Identifier: Apache-2.0
// What lwIP asks of its platform.
#ifndef BT_TCP_LWIP_CC_H
#define BT_TCP_LWIP_CC_H

#include <endian.h>
#include <stdint.h>

#define LWIP_NO_CTYPE_H         1
#define LWIP_PLATFORM_DIAG(x)   ((void)0)
#define LWIP_PLATFORM_ASSERT(x) bt_lwip_broken(x)
#define LWIP_RAND()             bt_lwip_random()
#define LWIP_CHKSUM             bt_lwip_sum

// Ends the process: memory is not what it should be.
void bt_lwip_broken(const char *what);
uint32_t bt_lwip_random(void);
// Folded sum of bytes in the order of the network.
uint16_t bt_lwip_sum(const void *at, int n);

#endif
