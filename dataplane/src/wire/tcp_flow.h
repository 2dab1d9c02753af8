// SPDX-License-Identifier: Apache-2.0
// The option of a SYN and a SYN-ACK by which both ends agree that the receive window says tokens and silences instead
// of bytes (F-34): kind 253 with an experiment's number (RFC 6994) and a version.
#ifndef BT_WIRE_TCP_FLOW_H
#define BT_WIRE_TCP_FLOW_H

#include <stdbool.h>
#include <stdint.h>

enum {
    BT_TCP_FLOW_KIND = 253,
    BT_TCP_FLOW_EXPERIMENT = 0xb0b7,
    BT_TCP_FLOW_VERSION = 1,
    BT_TCP_FLOW_PADDED = 8, // bytes as it is written, with the NOPs behind it
};

enum bt_tcp_flow {
    BT_TCP_FLOW_NONE,
    BT_TCP_FLOW_ASKED,
    BT_TCP_FLOW_UNKNOWN,   // another version: as if it were not there
    BT_TCP_FLOW_MALFORMED, // the options end in garbage: likewise
};

// Of a segment's options, `n` bytes.
enum bt_tcp_flow bt_tcp_flow_read(const uint8_t *options, uint32_t n);
// Writes BT_TCP_FLOW_PADDED bytes.
void bt_tcp_flow_write(uint8_t *at);
// F-30: whether the options ask for a scaled window; such a peer takes no part.
bool bt_tcp_flow_scaled(const uint8_t *options, uint32_t n);

#endif
