// SPDX-License-Identifier: Apache-2.0
// What one copy of the stack has room for.
#ifndef BT_TCP_SIZES_H
#define BT_TCP_SIZES_H

#define BT_TCP_CONNECTIONS 4096 // at once
#define BT_TCP_HALF_OPEN   128  // of those whose handshake is not over; the oldest gives way
#define BT_TCP_PCBS        (BT_TCP_CONNECTIONS + BT_TCP_HALF_OPEN + 896) // the rest waits for late segments
#define BT_TCP_SEGMENTS    8192
#define BT_TCP_QUEUED      512 // segments of one connection
#define BT_TCP_MSS         1460
#define BT_TCP_TICK_MS     10
#define BT_TCP_HELD        1024 // received packets that are out of order, of all connections

#endif
