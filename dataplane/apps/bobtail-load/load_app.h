// SPDX-License-Identifier: Apache-2.0
// The load generator: open loop, so a slow service is offered no less; latency counts from the
// moment a request was due, so a late generator cannot hide queueing; what is not answered counts
// as infinity. It measures on its own and asks nobody else.
#ifndef BT_APPS_LOAD_APP_H
#define BT_APPS_LOAD_APP_H

#include "base/histogram.h"
#include "base/rng.h"
#include "ctl/ctl.h"
#include "rpc/client.h"
#include "shell/cli.h"
#include "shell/network.h"

#include <pthread.h>
#include <stdio.h>

#define LOAD_CONNECTIONS_MAX  256u
#define LOAD_ROUTERS_MAX      64u
#define LOAD_TIMEOUTS_TO_MOVE 3u // in a row, then a socket tries another router

enum load_arrivals { ARRIVALS_POISSON, ARRIVALS_FIXED };
enum load_output { OUTPUT_TABLE, OUTPUT_JSON };

struct load_options {
    const char *target, *address, *slice_output, *outcome_log, *ctl;
    const char *agent, *agent_token_file; // agent: the rest is for a generator on its own
    bool agent_once;
    uint32_t agent_lease_s, agent_wait_s;
    double rate;
    uint64_t duration_ns, warmup_ns, timeout_ns, resolve_interval_ns, resolve_patience_ns, progress_ns;
    uint32_t request_bytes, connections, port_base, pending, max_message;
    uint32_t priority; // 4…7; 0: none
    uint32_t mtu;      // 0: auto
    struct bt_network_options network;
    int arrivals, output, policy, log;
    bool verify, legacy, flow_control;
    uint64_t seed;
};

// The routers (or servers) a name stands for at one time.
struct load_list {
    struct bt_addr addr[LOAD_ROUTERS_MAX];
    unsigned n;
};

// Resolves names in a thread of its own, because the C library's resolver blocks.
struct load_resolver {
    const struct load_options *opt;
    bool v6;
    void (*wake)(void *arg);
    void *wake_arg;
    pthread_mutex_t lock;
    pthread_cond_t stop_now;
    struct load_list list; // newest; under lock
    unsigned version;      // grows with every change; under lock
    unsigned failures;     // resolutions that failed; under lock
    bool stop;             // under lock
    bool started;
    pthread_t thread;
};

// Checks the syntax of --target; false with the entry at fault in bad.
bool load_target_check(const char *target, char *bad, size_t cap);
// Resolves once, in the calling thread; false with why.
bool load_resolve(const struct load_options *opt, bool v6, struct load_list *out, char *why, size_t cap);
bool load_resolver_start(struct load_resolver *r);
void load_resolver_stop(struct load_resolver *r);
// Copies the list if it changed since *version.
bool load_resolver_take(struct load_resolver *r, unsigned *version, struct load_list *out);

// What became of requests.
struct load_tally {
    uint64_t offered, sent, completed, dropped, timeouts, errors;
    uint64_t degraded; // of the completed, those marked on their way
    uint64_t held;     // of the offered, those that flow control kept from being sent (F-40)
};

struct load_router_tally {
    struct bt_addr addr;
    uint64_t sent, completed, dropped, timeouts;
};

// One request from send to end.
struct load_record {
    uint64_t serial; // what its body says
    uint64_t due_ns;
    uint64_t sent_ns;
    uint32_t next_free;
    uint16_t connection;
    uint16_t router; // index into tallies
    bool measured;
    bool in_flight;
};

// One socket with many request ids; it stays on one router until that fails.
struct load_connection {
    struct load_app *app;
    struct bt_client *client;
    struct bt_addr router;
    uint16_t tally; // of that router
    unsigned timeouts_in_row;
};

struct load_app {
    struct load_options opt;
    struct bt_network *network;
    struct bt_pool *pool;
    struct bt_io *io;
    struct bt_txq txq;
    uint16_t mtu; // in use
    struct load_connection conn[LOAD_CONNECTIONS_MAX];
    unsigned next_conn;
    void *client_mem;
    struct load_record *records;
    uint32_t free_record, n_records, outstanding;
    uint64_t next_serial;
    uint8_t *body, *reply;
    struct bt_rng rng;

    struct load_resolver resolver;
    unsigned list_version;
    struct load_list list;
    struct load_router_tally routers[LOAD_ROUTERS_MAX * 4];
    unsigned n_routers;
    uint64_t moves;

    uint64_t start_ns, measure_ns, end_ns; // first arrival, first measured one, end of arrivals
    uint64_t due_ns;                       // of the next request
    struct load_tally tally;               // measured requests only
    uint64_t error_codes[16];              // by -code
    uint64_t corrupt;
    uint64_t ended_twice;     // endings of requests that had ended before: none, or the client is broken
    FILE *outcomes;           // --outcome-log or NULL
    struct bt_hist hist;      // measured requests
    struct load_tally second; // everything, since second_ns
    struct bt_hist second_hist;
    uint64_t second_ns, progress_at_ns;
    FILE *slices_file;

    struct bt_mailbox mailbox;
    struct bt_ctl *ctl;
    struct bt_hist_slices *slices; // for the control protocol, NULL without
    bool stopping;                 // no more arrivals
};

enum bt_cli_result load_options_read(int argc, char **argv, struct load_options *opt);

// --address with this port; false if it is none.
bool load_own_address(const struct load_options *opt, uint16_t port, struct bt_addr *out);

// connections.c: sockets, the router each uses, callbacks.
bool load_connections_open(struct load_app *app);
void load_connections_update(struct load_app *app); // after a new list
void load_connections_unreachable(struct load_app *app, const struct bt_io_event *ev);
void load_send_one(struct load_app *app, uint64_t due_ns, uint64_t now_ns);

// Packets that never left because the network takes less than the MTU in use.
uint64_t load_connections_too_long(const struct load_app *app);

// body.c: what is in a request, so that its echo tells whose it is.
// The serial number in the first 8 bytes; with `pattern` all bytes behind depend on it too.
void load_body_fill(uint8_t *body, uint32_t n, uint64_t serial, bool pattern);
// True if the n bytes are the body of that serial; `scratch` holds n bytes.
bool load_body_is(const uint8_t *reply, uint32_t n, uint64_t serial, uint8_t *scratch);

// outcomes.c: one line per request as it ends (--outcome-log), in the order of endings.
bool load_outcomes_open(struct load_app *app);
void load_outcomes_add(struct load_app *app, const struct load_record *r, const char *result);
bool load_outcomes_close(struct load_app *app);

// loop.c
void load_loop(struct load_app *app);

// report.c
void load_report_second(struct load_app *app, uint64_t now_ns);
void load_report_final(const struct load_app *app);

extern const struct bt_ctl_app load_ctl_app;

#endif
