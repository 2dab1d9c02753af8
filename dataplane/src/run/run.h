// SPDX-License-Identifier: Apache-2.0
// Threads that serve (Z-01…Z-27, D-1…D-4): the scheduler of src/sched with real threads, real sleep, and R2P2 ports.
// Who opens it has opened the networks; each of them has one home core.
#ifndef BT_RUN_RUN_H
#define BT_RUN_RUN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bobtail/serve.h"
#include "io/io.h"
#include "rpc/server.h"
#include "run/flow.h"
#include "sched/sched.h"
#include "wire/requests.h"

enum {
    BT_RUN_LANE = 16, // threads that share a port (D-3)
    BT_RUN_THREADS_MAX = 64,
};

struct bt_run_port {
    struct bt_io *io;
    struct bt_server_cfg server;    // ops is the runtime's to fill in
    struct bt_hist_slices *service; // of execution, to its reply; NULL: not kept
    ptrdiff_t read_only;            // from a packet's bytes to where they cannot be written; 0: they can
    struct bt_flow *flow;           // its flow control, for who has the port's token; NULL: none
};

struct bt_run_wire;

// Requests over TCP instead of R2P2: a listener for each thread, all at one port (D-5).
struct bt_run_tcp {
    struct bt_addr local;
    enum bt_framing framing;
    uint32_t max_message;           // bytes of a request and of a reply
    uint32_t connections;           // of each thread, 1…65,536
    const struct bt_run_wire *wire; // who carries it: NULL: the kernel; else a stack of our own (run/tcp_stack.h) with
    struct bt_io *const *io;        // an io for each thread
    struct bt_pool *pool;           // and packets for all
    uint16_t mtu;
    const struct bt_fc_objective *flow; // its flow control, for clients that ask; NULL: none
};

enum bt_run_tcp_counter {
    BT_RUN_TCP_ACCEPTED,
    BT_RUN_TCP_REQUESTS,
    // Connections that ended for another reason than their client's:
    BT_RUN_TCP_MALFORMED, // what came was no request
    BT_RUN_TCP_TOO_LONG,  // it was longer than max_message
    BT_RUN_TCP_CUT,       // its client ended in the middle of a request
    BT_RUN_TCP_REFUSED,   // a handler did not reply
    BT_RUN_TCP_MEMORY,    // there was none
    BT_RUN_TCP_FULL,      // there were too many connections
    BT_RUN_TCP_RESET,     // by the client, or the network
    BT_RUN_TCP_NOT_TCP,   // packets to a port with a stack of its own that were something else
    BT_RUN_TCP_COUNTERS
};

struct bt_run_setup {
    enum bt_sched_mode mode;
    uint32_t threads; // 1…BT_RUN_THREADS_MAX
    // With work stealing so many at least run, the others as the load wants (Z-15); 0: all do.
    uint32_t threads_min;
    bool adjustable;         // with work stealing bt_run_set_cores says how many run; until then one a lane does
    uint64_t delay_bound_ns; // one more runs when requests wait longer
    uint32_t batch;          // packets taken at once, 1…BT_SCHED_BATCH_MAX
    uint64_t spin_ns;        // how long a thread without work looks before it sleeps
    uint64_t loop_ns;        // D of D-3: from a router's dispatch to FEEDBACK, without the service
    uint64_t seed;
    const char *name; // of the handler
    bool origins;     // bt_run_origin is asked
    bobtail_handler_fn handler;
    void *arg;
    void (*slow)(void *arg, const char *name, unsigned thread); // NULL: only counted
    const struct bt_run_port *port;                             // bt_run_ports of them, or NULL with
    const struct bt_run_tcp *tcp;
};

// How many ports so many threads have: one each, or one for each lane.
uint32_t bt_run_ports(enum bt_sched_mode mode, uint32_t threads);

struct bt_run;

// NULL with a sentence in err.
struct bt_run *bt_run_open(const struct bt_run_setup *setup, char *err, size_t errlen);
bool bt_run_start(struct bt_run *run, char *err, size_t errlen);
// The threads, of bt_run_start, for whoever pins them.
pthread_t bt_run_thread(const struct bt_run *run, uint32_t i);

// Between the two no other thread touches a port. Handlers go on. One thread at a time.
void bt_run_hold(struct bt_run *run);
void bt_run_go(struct bt_run *run);
// Port i's, between the two.
struct bt_server *bt_run_server(struct bt_run *run, uint32_t i);
struct bt_txq *bt_run_txq(struct bt_run *run, uint32_t i);
// n as configured: with work stealing it is the least that is granted.
void bt_run_set_depth(struct bt_run *run, uint16_t n);

// With work stealing and `adjustable`: of all threads so many run at least and at most from now on, each lane its
// share. Any thread. What is executed and what waits is not touched.
void bt_run_set_cores(struct bt_run *run, uint32_t least, uint32_t most);
// Packets taken at once, and with work stealing whether requests of one client are executed one after the other, as
// they came (D-4). Between hold and go.
void bt_run_set_batch(struct bt_run *run, uint32_t batch);
void bt_run_set_order(struct bt_run *run, bool per_client);

struct bt_run_lanes {
    uint32_t lanes;       // ports
    uint32_t least, most; // threads that may run, of all lanes: as configured, and no more than there are processors
    uint32_t processors;  // that the process may use now
    uint64_t longest_ns;  // the longest handler that has ended; to completion those below 20 us do not count
};
void bt_run_read_lanes(const struct bt_run *run, struct bt_run_lanes *out);

// Cores that may share a port's requests.
uint32_t bt_run_cores(const struct bt_run *run, uint32_t port);

// n of a lane of k cores (D-3): k (1 + D / S) + 8, at most 64. service_ns 0: nothing was executed yet.
uint16_t bt_run_depth(uint32_t k, uint64_t loop_ns, double service_ns);

// Sums of all threads, BT_RUN_TCP_COUNTERS of them.
void bt_run_read_tcp(const struct bt_run *run, uint64_t *out);
// Takes no more connections. Then: requests that are not answered, and connections whose replies have not left.
void bt_run_end_listening(struct bt_run *run);
uint32_t bt_run_tcp_backlog(struct bt_run *run);

void bt_run_read_counts(const struct bt_run *run, struct bobtail_server_counts *out);

// Ends the threads after the handlers that run. The networks stay open.
void bt_run_close(struct bt_run *run);

// What the router said of a request that is executed.
uint8_t bt_run_class_flags(const struct bobtail_request *request);
uint32_t bt_run_thread_of(const struct bobtail_request *request);
// Whose request it is, where that was set up; returns the port it came to.
int bt_run_origin(const struct bobtail_request *request, struct bt_addr *client, uint16_t *id);

#endif
