/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where a program finds the one that does the same for IPv6: a tail call, so that
 * each has a stack of its own and IPv4 does not pay for the other family. The
 * loader fills both maps; an entry that is empty lets IPv6 pass untouched.
 */
#ifndef CRAB_SIX_H
#define CRAB_SIX_H

/* Only ever append: the value is the index in a pinned map. */
enum crab_six_entry {
    CRAB_SIX_CLIENT_OUT = 0,
    CRAB_SIX_CLIENT_OUT_POD = 1,
    CRAB_SIX_CLIENT_IN = 2,
    CRAB_SIX_CLIENT_IN_NEAR = 3,
    CRAB_SIX_SERVER_IN = 4,
    CRAB_SIX_SERVER_OUT = 5,
    CRAB_SIX_SERVER_OUT_POD = 6,
    CRAB_SIX_BALANCE_IN = 7,
    CRAB_SIX_BALANCE_OUT = 8,
    CRAB_SIX_LB_NATIVE = 9, /* of crab_six_xdp */
    CRAB_SIX_LB_GENERIC = 10,
    CRAB_SIX_WATCH_IN = 11,
    CRAB_SIX_WATCH_OUT = 12,
    CRAB_SIX_TUNNEL_IN = 13,
    CRAB_SIX_ENTRIES = 16, /* room for more */
};

#endif
