// SPDX-License-Identifier: Apache-2.0
// The 16 bits by which a server tells a client how many more requests would still be answered in time (tcp-flow-control
// §3): tokens, or for how long to be silent. In network order they are what TCP calls the receive window.
#ifndef BT_WIRE_FC_SIGNAL_H
#define BT_WIRE_FC_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>

#define BT_FC_VALUE_MAX 0x7fffu // tokens or microseconds
#define BT_FC_IDLE_BIT  0x8000u
#define BT_FC_PERIOD_US 500u // of replenishment (F-15)

struct bt_fc_signal {
    bool idle;
    uint16_t value; // tokens; idle: microseconds
};

// F-31: no tokens are never written; it would be a deadlock. They become a period of silence.
static inline uint16_t bt_fc_write_tokens(uint32_t tokens)
{
    if (tokens == 0) {
        return BT_FC_IDLE_BIT | BT_FC_PERIOD_US;
    }
    return (uint16_t)(tokens < BT_FC_VALUE_MAX ? tokens : BT_FC_VALUE_MAX);
}

// Longer than 32.767 ms cannot be said.
static inline uint16_t bt_fc_write_idle(uint64_t microseconds)
{
    return (uint16_t)(BT_FC_IDLE_BIT | (microseconds < BT_FC_VALUE_MAX ? microseconds : BT_FC_VALUE_MAX));
}

// Every value is one (F-31): 0x0000 is a period of silence, 0x8000 one token at once.
static inline struct bt_fc_signal bt_fc_read(uint16_t bits)
{
    if (bits == 0) {
        return (struct bt_fc_signal){true, BT_FC_PERIOD_US};
    }
    return (struct bt_fc_signal){(bits & BT_FC_IDLE_BIT) != 0, bits & BT_FC_VALUE_MAX};
}

#endif
