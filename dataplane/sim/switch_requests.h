// SPDX-License-Identifier: Apache-2.0
// Requests as clients send them, and as nobody should (r2p2.md §9), for a switch and a router in software to judge.
#ifndef BOBTAIL_SIM_SWITCH_REQUESTS_H
#define BOBTAIL_SIM_SWITCH_REQUESTS_H

#include <stdint.h>

#include "base/rng.h"

enum { SIM_REQUEST_MOST = 1472 };

enum sim_request_kind {
    SIM_REQUEST_WHOLE,
    SIM_REQUEST_ONE, /* one thing is wrong about it, and its reason is certain */
    SIM_REQUEST_TWO, /* two things are, and either may be named */
    /* By design these are something else to a switch than to the software router. */
    SIM_REQUEST_UNREAD, /* wrong where a switch does not read: behind the first option, or over the header's end */
    SIM_REQUEST_STICKY,
    SIM_REQUEST_LONG, /* no room for the router's option */
    SIM_REQUEST_KINDS
};

struct sim_request {
    enum sim_request_kind kind;
    uint32_t ip; /* the client's */
    uint16_t port;
    uint8_t bytes[SIM_REQUEST_MOST];
    uint32_t n;
};

const char *sim_request_kind_name(enum sim_request_kind kind);

/* ip, port: of an honest client. own: an address and port that are the router's. */
struct sim_request_ends {
    uint32_t ip, own;
    uint16_t port, own_port;
};

void sim_request_draw(struct sim_request *q, struct bt_rng *rng, enum sim_request_kind kind, uint16_t id,
                      const struct sim_request_ends *ends);

#endif
