// SPDX-License-Identifier: Apache-2.0
// Why a packet was rejected: the M-cases of the protocol rules, plus the option
// cases of. One value, one counter, one fuzz seed.
#ifndef BT_WIRE_MCASE_H
#define BT_WIRE_MCASE_H

#include "base/counters.h"

enum bt_mcase {
    BT_M_OK = 0,
    BT_M1 = 1,   // fewer than 8 bytes
    BT_M2 = 2,   // magic is not 0xCC
    BT_M3 = 3,   // header size below 8 or beyond the packet
    BT_M4 = 4,   // IP or UDP length inconsistent (drivers)
    BT_M5 = 5,   // type unknown or not legal for this role
    BT_M6 = 6,   // policy unknown
    BT_M7 = 7,   // F with count 0; single-packet type without F|L
    BT_M8 = 8,   // F|L with count other than 1; F without L with count 1
    BT_M9 = 9,   // index 0 or at least count on a non-F packet
    BT_M10 = 10, // L on another index than count-1, or missing there
    BT_M11 = 11, // second F of a pair that differs
    BT_M12 = 12, // duplicate index that differs
    BT_M13 = 13, // packet in the middle shorter than full
    BT_M14 = 14, // longer than the MTU, or message larger than the maximum
    BT_M15 = 15, // REQn of an unknown, finished or foreign pair
    BT_M16 = 16, // early packet beyond the holding list's bound
    BT_M17 = 17, // REPLY of an unknown id, before REQRDY or after completion
    BT_M18 = 18, // REQRDY that nobody waits for
    BT_M19 = 19, // DROP of an unknown or half-answered pair
    BT_M20 = 20, // SACK malformed, out of range or too often
    BT_M21 = 21, // FEEDBACK from a stranger, or of an impossible length
    BT_M22 = 22, // FEEDBACK whose counters contradict
    BT_M23 = 23, // source address no honest peer has
    BT_M24 = 24, // tables or buffers full
    BT_M25 = 25, // trailing bytes after a fixed-size payload
    BT_M26 = 26, // Raft type outside a replication group
    BT_M_OPT_SIZE,      // header size not a multiple of 4, or above 64
    BT_M_OPT_TRUNCATED, // option runs over the header's end
    BT_M_OPT_LENGTH,    // known option with an impossible length
    BT_M_OPT_DUPLICATE, // known option twice
    BT_M_OPT_CRITICAL,  // unknown option that must be understood (top bit set)
    BT_M_FORWARDER,     // forwarded-for from neither a configured router nor with a valid tag
    BT_M_TAG,           // tag missing where mandatory, of an unknown key, or wrong
    BT_M_COUNT          // number of cases, not a case
};

// "M-13", "OPT-SIZE", … as used in vectors, counters and logs.
const char *bt_mcase_name(enum bt_mcase m);

#endif
