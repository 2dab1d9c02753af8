// SPDX-License-Identifier: Apache-2.0
// How the state of a member begins in a snapshot: magic u32, version u32, cluster 16 bytes, index u64, bytes of roster
// u32, of sessions u32; then roster, sessions, the service's own.
#ifndef BT_RUN_STATE_H
#define BT_RUN_STATE_H

enum { BT_STATE_MAGIC = 0x42745273, BT_STATE_VERSION = 1, BT_STATE_HEAD = 40 };

#endif
