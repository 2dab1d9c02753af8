// SPDX-License-Identifier: Apache-2.0
// A server of homes with a TCP stack of their own, played by hand in the virtual time of tcp/stack_bed.h: a client's
// packets come to the port of home 0, and what any home sends goes to the client. Requests are of the u32 framing, and
// their first byte says what becomes of them.
#ifndef BT_TESTS_CONN_BED_H
#define BT_TESTS_CONN_BED_H

#include "tcp/stack_bed.h"

#include "run/run_internal.h"
#include "run/tcp_stack.h"
#include "run/tcp_wire.h"

enum {
    CONNECTIONS = 4, // of a home
    MOST = 3000,     // bytes of a request
    PORTS = 2,
};

// Answered with itself, a hundred times itself, nothing, or itself after a while.
enum { SAME = 'e', MUCH = 'm', NOTHING = 'n', SLOW = 's' };

struct bed_port {
    struct bt_io io; // first
    struct bt_pkt *in[FLIGHT];
    unsigned n_in;
    uint64_t due; // its own timers
    uint64_t counts[2];
    uint64_t took, sent, bytes; // packets in and out, and bytes of the stream out
};

struct conn_bed {
    struct bt_run *run; // NULL: closed
    struct bed_port port[PORTS];
    unsigned handled;
    bool executes; // a turn executes what came; otherwise it waits
};

extern struct conn_bed bed;

struct bed_options {
    bool v6, asks; // the client's
    uint32_t threads, batch, connections;
    const struct bt_fc_objective *flow;
};

void begin_bed(struct bed_options o);
// Every packet is back.
void end_bed(void);
// The server ends; what it sent last is on its way.
void close_server(void);
// What bt_run_open says of connections of their own.
void refused_bed(uint32_t connections, const char *words);
// A request of n bytes behind its length, at the end of what the client has to say; returns how long that is now.
uint32_t ask_for(char mark, uint32_t n);
void say_nothing(void);
// What the client said, n bytes, comes back, and nothing else.
void all_came_back(uint32_t n);
// So many turns.
void turns(unsigned n);
uint64_t run_counted(enum bt_run_tcp_counter which);
uint64_t stack_counted(enum bt_tcp_counter which);
// Connection i of home 0.
struct run_conn *conn(uint32_t i);
struct run_tcp *tcp(void);

#endif
