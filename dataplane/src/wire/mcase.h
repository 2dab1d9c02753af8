// SPDX-License-Identifier: Apache-2.0
// Why a packet was rejected: the M-cases of the protocol rules, plus the option
// cases of. One value, one counter, one fuzz seed.
#ifndef BT_WIRE_MCASE_H
#define BT_WIRE_MCASE_H

#include "base/counters.h"

enum bt_mcase {
    BT_M_OK = 0,
    BT_M1 = 1,          // fewer than 8 bytes
    BT_M2 = 2,          // magic is not 0xCC
    BT_M3 = 3,          // header size below 8 or beyond the packet
    BT_M4 = 4,          // IP or UDP length inconsistent (drivers)
    BT_M5 = 5,          // type unknown or not legal for this role
    BT_M6 = 6,          // policy unknown
    BT_M7 = 7,          // F with count 0; single-packet type without F|L
    BT_M8 = 8,          // F|L with count other than 1; F without L with count 1
    BT_M9 = 9,          // index 0 or at least count on a non-F packet
    BT_M10 = 10,        // L on another index than count-1, or missing there
    BT_M11 = 11,        // second F of a pair that differs
    BT_M12 = 12,        // duplicate index that differs
    BT_M13 = 13,        // packet in the middle shorter than full
    BT_M14 = 14,        // longer than the MTU, or message larger than the maximum
    BT_M15 = 15,        // REQn of an unknown, finished or foreign pair
    BT_M16 = 16,        // early packet beyond the holding list's bound
    BT_M17 = 17,        // REPLY of an unknown id, before REQRDY or after completion
    BT_M18 = 18,        // REQRDY that nobody waits for
    BT_M19 = 19,        // DROP of an unknown or half-answered pair
    BT_M20 = 20,        // SACK malformed, out of range or too often
    BT_M21 = 21,        // FEEDBACK from a stranger, or of an impossible length
    BT_M22 = 22,        // FEEDBACK whose counters contradict
    BT_M23 = 23,        // source address no honest peer has
    BT_M24 = 24,        // tables or buffers full
    BT_M25 = 25,        // trailing bytes after a fixed-size payload
    BT_M26 = 26,        // Raft type outside a replication group
    BT_M27 = 27,        // CANCEL that names no copy
    BT_M_OPT_SIZE,      // header size not a multiple of 4, or above 64
    BT_M_OPT_TRUNCATED, // option runs over the header's end
    BT_M_OPT_LENGTH,    // known option with an impossible length
    BT_M_OPT_DUPLICATE, // known option twice
    BT_M_OPT_CRITICAL,  // unknown option that must be understood (top bit set)
    BT_M_FORWARDER,     // forwarded-for from neither a configured router nor with a valid tag
    BT_M_TAG,           // tag missing where mandatory, of an unknown key, or wrong
    BT_M_COUNT          // number of cases, not a case
};

// X(case, name) for every case, for name and counter tables.
// clang-format off
#define BT_MCASE_LIST(X) \
    X(BT_M1, "M-1") X(BT_M2, "M-2") X(BT_M3, "M-3") X(BT_M4, "M-4") \
    X(BT_M5, "M-5") X(BT_M6, "M-6") X(BT_M7, "M-7") X(BT_M8, "M-8") \
    X(BT_M9, "M-9") X(BT_M10, "M-10") X(BT_M11, "M-11") X(BT_M12, "M-12") \
    X(BT_M13, "M-13") X(BT_M14, "M-14") X(BT_M15, "M-15") X(BT_M16, "M-16") \
    X(BT_M17, "M-17") X(BT_M18, "M-18") X(BT_M19, "M-19") X(BT_M20, "M-20") \
    X(BT_M21, "M-21") X(BT_M22, "M-22") X(BT_M23, "M-23") X(BT_M24, "M-24") \
    X(BT_M25, "M-25") X(BT_M26, "M-26") X(BT_M27, "M-27") X(BT_M_OPT_SIZE, "OPT-SIZE") X(BT_M_OPT_TRUNCATED, "OPT-TRUNCATED") \
    X(BT_M_OPT_LENGTH, "OPT-LENGTH") X(BT_M_OPT_DUPLICATE, "OPT-DUPLICATE") X(BT_M_OPT_CRITICAL, "OPT-CRITICAL") X(BT_M_FORWARDER, "FORWARDER") \
    X(BT_M_TAG, "TAG")
// clang-format on

// "M-13", "OPT-SIZE", … as used in vectors, counters and logs.
const char *bt_mcase_name(enum bt_mcase m);

#endif
