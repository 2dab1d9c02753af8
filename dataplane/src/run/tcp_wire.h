// SPDX-License-Identifier: Apache-2.0
// Between connections that are flows (tcp.c) and whoever carries their bytes: the kernel (tcp_kernel.c), or a stack of
// our own on a port (tcp_stack.c). All of it with the home's token.
#ifndef BT_RUN_TCP_WIRE_H
#define BT_RUN_TCP_WIRE_H

#include "run/memory.h"
#include "run/run_internal.h"

enum {
    RUN_TCP_PER_TURN = 16, // requests of one connection at once
    RUN_TCP_IN_FIRST = 4096,
};

struct run_bytes {
    uint8_t *at;
    uint32_t from, len, room; // of len bytes, the first `from` are done with
};

struct run_conn {
    bool used;
    uint32_t index, pending;
    bool ended;  // nothing more comes
    bool broken; // nothing more is taken: what was executed before is still answered
    bool dead;   // nobody is there
    bool held;   // a request of it found no memory
    struct bt_framer framer;
    struct run_bytes in, out;
    struct run_conn *next;
    // The carrier's.
    int fd;
    uint32_t asked;         // what epoll was told
    void *carrier, *stacks; // the stack and its connection, NULL: gone
    uint32_t unread;        // bytes that came and of which the stack was not told that they are taken
    bool reads, touched;
    struct run_conn *next_touched;
    struct bt_fc_conn *flow;
};

struct run_tcp {
    struct run_home *home;
    struct bt_run_tcp setup;
    struct bt_run_memory memory;
    const struct bt_run_wire *wire;
    void *of_wire;
    int listener, set; // the kernel's
    struct run_conn *conn, *free;
    struct bobtail_request *jobs, *free_jobs;
    uint32_t held, open;
    _Atomic uint64_t counters[BT_RUN_TCP_COUNTERS];
};

struct bt_run_wire {
    bool (*open)(struct run_tcp *t, char *err, size_t errlen);
    void (*close)(struct run_tcp *t);
    void (*end_listening)(struct run_tcp *t);
    bool (*poll)(struct run_tcp *t); // true when there may be more
    void (*flush)(struct run_tcp *t);
    // As much of c->out as goes now.
    void (*write)(struct run_tcp *t, struct run_conn *c);
    // Whether more of c is to be read.
    void (*ask)(struct run_tcp *t, struct run_conn *c, bool reads);
    // c is over: what it wrote still arrives, unless it is dead.
    void (*end)(struct run_tcp *t, struct run_conn *c);
    // A request was executed, or given up; NULL: nobody wants to know.
    void (*served)(struct run_tcp *t, struct run_conn *c, const struct bobtail_request *job);
    // A request was taken; NULL: likewise.
    void (*came)(struct run_tcp *t, struct run_conn *c);
    // As bt_io_ops has it.
    unsigned (*watch)(const struct run_tcp *t, int *fds, unsigned max);
    uint64_t (*next)(const struct run_tcp *t); // NULL: never
};

extern const struct bt_run_wire run_tcp_kernel;

static inline void run_tcp_count(struct run_tcp *t, enum bt_run_tcp_counter which)
{
    run_count(&t->counters[which], 1);
}

// Room for n more bytes.
bool run_bytes_grow(struct run_bytes *b, uint32_t n);
// A connection came; NULL: there are too many, which is counted.
struct run_conn *run_conn_begin(struct run_tcp *t);
void run_conn_break(struct run_tcp *t, struct run_conn *c, enum bt_run_tcp_counter why);
// Bytes came, or it ended: requests are taken.
void run_conn_came(struct run_tcp *t, struct run_conn *c);
// Bytes go, and it may be over.
void run_conn_serve(struct run_tcp *t, struct run_conn *c);

#endif
