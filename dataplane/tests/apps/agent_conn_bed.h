// SPDX-License-Identifier: Apache-2.0
// One connection of a Lancet agent without its thread: the test sends, takes events and looks for timeouts, and is the
// server at the other end, too.
#ifndef BT_TESTS_AGENT_CONN_BED_H
#define BT_TESTS_AGENT_CONN_BED_H

#include "unit.h"

#include "bobtail-load/agent/agent.h"

#define MS UINT64_C(1000000)

struct agent_bed {
    struct agent agent;
    struct agent_worker worker;
    struct agent_conn *conn;
    int listener, peer; // of the server; peer: -1 or what was accepted last
    struct bt_addr target;
};

extern struct agent_bed bed;

// With more fields of "configure" (`"outstanding":4`), and a measurement of ten samples that is open. R2P2: the peer is
// a datagram socket.
void agent_bed_open(const char *protocol, const char *more);
void agent_bed_close(void); // every descriptor is closed that was opened since

// Waits for what the kernel has to tell of the connection and hands it over, once.
void agent_bed_event(void);

void agent_bed_accept(void);
void agent_bed_stop_listening(void);        // nobody else gets the port
void agent_bed_hear(void *bytes, size_t n); // until so many came
void agent_bed_say(const void *bytes, size_t n);

uint64_t agent_bed_failed(enum agent_outcome outcome);

#endif
