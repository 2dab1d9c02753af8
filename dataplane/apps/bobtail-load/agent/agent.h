// SPDX-License-Identifier: Apache-2.0
// The Lancet agent (docs/reference/lancet-agent.md): threads that offer load and write down what became of it,
// and a control thread that talks to the coordinator. The control thread owns what is configured;
// a worker owns its connections. They meet in the atomics of the window and the tallies.
#ifndef BT_APPS_AGENT_H
#define BT_APPS_AGENT_H

#include "agent/device.h"
#include "base/addr.h"
#include "base/histogram.h"
#include "base/rng.h"
#include "ctl/error.h"
#include "lancet/flight.h"
#include "lancet/request.h"
#include "rpc/client.h"

#include <net/if.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct bt_cpus;

#define AGENT_TARGETS     64u
#define AGENT_TARGET_TEXT 264u
#define AGENT_THREADS     64u
#define AGENT_CONNECTIONS 16384u
#define AGENT_IN_FLIGHT   1048576u // requests on their way at most: some 100 bytes each
#define AGENT_TRACE       65536u
#define AGENT_SAMPLES     1000000u
#define AGENT_NEVER       UINT64_MAX // a time that did not come
#define AGENT_NO_SAMPLE   UINT32_MAX
#define AGENT_READ_BYTES  65536u

enum agent_role { AGENT_THROUGHPUT, AGENT_LATENCY, AGENT_SYMMETRIC };
enum agent_stamps { AGENT_STAMPS_AUTO, AGENT_STAMPS_SOFTWARE, AGENT_STAMPS_KERNEL, AGENT_STAMPS_HARDWARE };
enum agent_arrivals { AGENT_POISSON, AGENT_FIXED, AGENT_TRACE_ARRIVALS };
enum agent_polling { AGENT_POLLING_DEFAULT, AGENT_BUSY, AGENT_WAIT };

// How a request ended; the numbers are those of the sample records.
enum agent_outcome {
    AGENT_ANSWERED,
    AGENT_TIMEOUT,
    AGENT_DISCONNECTED,
    AGENT_ERROR_REPLY,
    AGENT_BAD_REPLY,
    AGENT_DROPPED,
    AGENT_NOT_SENT,
    AGENT_REFUSED,
    AGENT_OUTCOMES
};
extern const char *const agent_outcome_name[AGENT_OUTCOMES];
extern const char *const agent_stamps_name[];

struct agent_config {
    int role, stamps, arrivals, polling;
    bool r2p2; // workload.protocol is that of its bodies, ECHO
    bool preload;
    uint32_t threads, connections, outstanding;
    uint64_t timeout_ns, seed;
    uint32_t n_targets, n_trace;
    char target[AGENT_TARGETS][AGENT_TARGET_TEXT];
    char device[IFNAMSIZ];
    uint64_t *trace; // gaps in ns; owned
    double trace_mean;
    double trace_share; // of the samples of R2P2 that carry a trace id
    struct bt_workload workload;
};

struct agent_record {
    uint64_t intended_ns, sent_ns, received_ns, stamped_ns, gap_ns;
    uint16_t connection;
    uint8_t outcome, stamps, operation;
    uint64_t trace; // the id it carried, 0: none
};
#define AGENT_RECORD_BYTES 56u

// One measurement. Requests count for it while `number` is not 0.
struct agent_window {
    _Atomic uint32_t number;
    _Atomic uint32_t claimed;   // samples taken or tried to be
    _Atomic uint64_t closed_ns; // since time 0; 0 while it is open
    uint32_t last;              // number of the newest one, 0 before the first
    uint32_t wanted;
    uint64_t opened_ns, ends_ns;
    double rate;
    struct agent_record *records; // `wanted` of them
};

// Written by one worker, read by the control thread.
struct agent_tally {
    _Atomic uint64_t sent, answered, misses, stamped, unstamped;
    _Atomic uint64_t failed[AGENT_OUTCOMES];
    _Atomic uint64_t ended; // answered and failed; written last, so that who reads it sees all else
};

static inline void agent_count(_Atomic uint64_t *c)
{
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + 1, memory_order_release);
}

// One request on its way, whatever carries it.
struct agent_request {
    uint64_t intended_ns, sent_ns;
    uint32_t window, sample;
    uint8_t operation;
};

enum agent_conn_state { AGENT_CONN_CLOSED, AGENT_CONN_CONNECTING, AGENT_CONN_READY };

struct agent_r2p2_slot {
    struct agent_request request;
    uint64_t tx_stamp_ns;
    uint32_t datagram; // its first one's number on the socket
    uint32_t next_free;
    bool in_flight;
};

struct agent_conn {
    struct agent_worker *worker;
    int fd;
    uint32_t index; // over all threads
    struct bt_addr target;
    uint8_t state; // enum agent_conn_state
    bool listed;   // in the worker's list of free ones
    uint64_t retry_ns;
    // TCP
    struct bt_flight flight;
    struct bt_flight_slot *slots;
    uint8_t *unsent; // rest of a request the socket did not take at once; allocated when first needed
    size_t unsent_len, unsent_at;
    // R2P2
    struct bt_client *client;
    void *client_mem;
    struct agent_r2p2_slot *r2p2;
    uint32_t r2p2_free, datagrams;
    uint64_t rx_stamp_ns, rx_ns; // of the datagram being handled
};

struct agent_worker {
    struct agent *agent;
    uint32_t number;
    pthread_t thread;
    bool started;
    int epoll_fd, wake_fd;
    struct agent_conn *conn;
    uint32_t n_conn;
    uint32_t *free_conn; // ring of n_conn indices of connections that can take a request
    uint32_t free_head, free_count;
    struct bt_rng arrivals, sampling;
    uint64_t rate_bits; // of the rate in use
    double due_ns;      // of the next request, since time 0
    uint32_t trace_at;
    uint64_t last_sent_ns;
    uint64_t look_ns; // when timeouts are looked for next
    struct bt_request_stream stream;
    uint8_t *out, *in; // one request, one read
    struct bt_pool *pool;
    void *pool_mem;
    uint32_t mtu;
    // What others read.
    _Atomic uint32_t seen; // window this turn counts for, 0 outside of turns
    atomic_bool sending;   // in such a turn, by the rate there was at its begin
    _Atomic uint32_t outstanding;
    _Atomic uint64_t reconnects, stamps_discarded;
    struct agent_tally since, window;
    struct bt_hist response, service; // of the window; the control thread's once all of it ended
};

enum agent_state { AGENT_IDLE, AGENT_READY, AGENT_LOADING };

struct agent {
    enum agent_state state;
    struct agent_config config;
    int stamps;                 // in use: SOFTWARE, KERNEL or HARDWARE
    struct agent_device device; // that was switched to stamping for this configuration
    uint64_t start_ns;          // time 0, the last configure, on the monotonic clock
    struct agent_worker *worker;
    _Atomic uint64_t rate_bits; // double, per stream; 0.0 is no load
    _Atomic bool quit;
    _Atomic bool cancel;         // what is being configured is no longer wanted
    _Atomic int busy_poll_error; // of SO_BUSY_POLL on any of the sockets; 0: none
    _Atomic uint64_t bad_replies_logged;
    const struct bt_cpus *cpus; // of the threads, in their order
    struct agent_window window;
};

// Nanoseconds since time 0.
uint64_t agent_now(const struct agent *a);

// configure.c: reads the fields of "configure" into a cleared *out; false with what is wrong in e.
bool agent_config_read(const char *line, size_t len, struct agent_config *out, struct bt_ctl_error *e);
void agent_config_free(struct agent_config *c);

// workers.c: connections are opened and threads started; false with e when that fails.
bool agent_workers_start(struct agent *a, struct bt_ctl_error *e);
void agent_workers_stop(struct agent *a);
void agent_wake(struct agent *a);
uint32_t agent_outstanding(const struct agent *a);

// Once the rate is 0: true when nothing is on its way and no worker is in a turn that began before, and may still send.
bool agent_idle(const struct agent *a);

// worker.c
void *agent_worker_run(void *arg);
void agent_conn_free(struct agent_conn *c); // c can take a request again
// Notes a request's end; stamped_ns: latency by stamps or AGENT_NEVER.
void agent_end(struct agent_worker *w, const struct agent_request *r, enum agent_outcome outcome, bool miss,
               uint64_t received_ns, uint64_t stamped_ns);

// window.c
bool agent_window_open(struct agent *a, uint32_t samples, double rate, uint64_t length_ns);
void agent_window_close(struct agent *a, uint64_t now_ns);
void agent_window_check(struct agent *a); // closes it when its time is up
bool agent_window_complete(struct agent *a);
// A request due at intended_ns is sent now: does it count, is it a sample?
struct agent_request agent_window_take(struct agent_worker *w, uint64_t intended_ns, uint64_t now_ns);

// One way to carry requests. open is called by the control thread before the threads run, the others
// by the connection's worker.
struct agent_transport {
    bool (*open)(struct agent_conn *c, struct bt_ctl_error *e);
    void (*send)(struct agent_conn *c, uint64_t intended_ns);
    void (*ready)(struct agent_conn *c, uint32_t events);
    void (*look)(struct agent_conn *c, uint64_t now_ns); // now and then: timeouts, reconnects
    void (*close)(struct agent_conn *c);
};
extern const struct agent_transport agent_tcp, agent_r2p2;
static inline const struct agent_transport *agent_transport_of(const struct agent *a)
{
    return a->config.r2p2 ? &agent_r2p2 : &agent_tcp;
}

// stamps.c: chooses what config.stamps asks for on the path to that target; false with e.
bool agent_stamps_choose(struct agent *a, const struct bt_addr *target, struct bt_ctl_error *e);
// Switches stamps on for a socket that is connected (TCP) or bound (UDP).
bool agent_stamps_enable(const struct agent *a, int fd);
// Reads into buf, with the stamp or BT_NO_STAMP; otherwise as recvmsg.
long agent_stamps_read(const struct agent *a, int fd, void *buf, size_t n, struct bt_addr *from, uint64_t *stamp_ns);
// The next transmission stamp of the error queue: false when there is none.
bool agent_stamps_sent(const struct agent *a, int fd, uint32_t *id, uint64_t *ns);

// polling.c: has the kernel poll for what comes to a socket of a measuring agent.
void agent_busy_poll(struct agent *a, int fd);
#define AGENT_BUSY_POLL_TEXT 128u
// "on", "off" (nobody asked for it) or "refused: " and why, written to text.
const char *agent_busy_poll_said(const struct agent *a, char text[AGENT_BUSY_POLL_TEXT]);

// preload.c: stores every key at the first target; false with e.
bool agent_preload(struct agent *a, const struct bt_addr *target, struct bt_ctl_error *e);

// tcp.c: a socket connected within a few seconds, blocking; -1 with e.
int agent_connect(const struct bt_addr *target, struct bt_ctl_error *e);

// serve.c: runs the agent until it is told to end; the program's exit status.
struct agent_listen_options {
    const char *address, *token_file;
    bool once;
    unsigned lease_s; // a coordinator that says nothing for so long is dead
    unsigned wait_s;  // an agent nobody was let in to for so long ends; 0: never
    const struct bt_cpus *cpus;
};
int agent_serve(const struct agent_listen_options *o);

#define AGENT_WRONG_STATE   "WrongState"
#define AGENT_UNAUTHORIZED  "Unauthorized"
#define AGENT_UNSUPPORTED   "Unsupported"
#define AGENT_TARGET_FAILED "TargetFailed"
#define AGENT_BUSY_CODE     "Busy"

#endif
