// SPDX-License-Identifier: Apache-2.0
// The 64 bits that stand for a cluster on the wire, the same for members and for the aggregator.
#ifndef BT_RUN_CLUSTER_H
#define BT_RUN_CLUSTER_H

#include <stdint.h>

uint64_t bt_member_wire_cluster(const uint8_t cluster[16]);

#endif
