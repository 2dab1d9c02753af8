// SPDX-License-Identifier: Apache-2.0
// The synthetic server: one I/O thread owns every worker's socket and protocol state, so that
// `received` in FEEDBACK stays prompt while a worker is busy (the paper's asymmetric model, R-48, with one port per
// worker). A worker that spins is a thread. One that sleeps is a timer of the I/O thread, as an asynchronous handler
// that waits for a disk or another service would be: 64 of them cost no context switches of their own.
#ifndef BT_APPS_SERVE_APP_H
#define BT_APPS_SERVE_APP_H

#include "ctl/ctl.h"
#include "rpc/server.h"
#include "run/run.h"
#include "service_time.h"
#include "shell/cli.h"
#include "shell/network.h"
#include "shell/spsc.h"

#include <pthread.h>
#include <semaphore.h>

#define SERVE_WORKERS_MAX 64u
#define SERVE_ECHO        UINT32_MAX // reply_bytes: send the request back

enum serve_occupy { OCCUPY_SLEEP, OCCUPY_SPIN };
enum serve_protocol { SERVE_R2P2, SERVE_RESP, SERVE_HTTP, SERVE_MEMCACHED, SERVE_U32 };
enum serve_mode { MODE_LOOP, MODE_RUN_TO_COMPLETION, MODE_WORK_STEALING };

struct serve_options {
    const char *address;
    uint32_t port, workers;
    uint32_t mtu;                                     // 0: auto
    const char *service_time, *degraded_service_time; // NULL: the same
    int occupy;                                       // enum serve_occupy
    int mode;                                         // enum serve_mode
    uint32_t threads, batch;                          // of the scheduled modes; 0: not given
    uint32_t min_threads;
    bool told;            // BOBTAIL_SCHEDULING has the mode: the configuration says how many threads run
    int protocol;         // enum serve_protocol
    uint32_t connections; // over TCP, of each thread
    uint64_t spin_ns, delay_bound_ns;
    uint64_t wait_ns; // of flow control; 0: none
    double wait_percentile;
    int wait_model; // enum bt_fc_model
    const char *reply_bytes;
    const char *ctl, *config, *config_cache, *key_dir, *routers, *execution_log;
    uint32_t feedback_port, queue_depth, max_message;
    int device; // enum bt_device
    bool legacy_routers;
    struct bt_network_options network;
    int log;
    uint32_t drain_seconds;
    uint64_t drain_quiet_ns;
    uint64_t seed;
    // Derived.
    struct service_time service, degraded;
    uint32_t reply_size; // or SERVE_ECHO
    struct bt_addr first;
    struct bt_server_router static_routers[BT_SERVER_ROUTERS];
    int n_static_routers;
};

static inline enum bt_sched_mode serve_sched_mode(const struct serve_options *o)
{
    return o->mode == MODE_WORK_STEALING ? BT_SCHED_WORK_STEALING : BT_SCHED_RUN_TO_COMPLETION;
}

struct serve_app;

// Jobs a worker can hold: more than any router may leave there, so that only direct clients can
// fill it.
#define SERVE_PENDING 2048u

// A request on its way through a worker. A thread reads nothing but `next`, `degraded` and `cancelled`.
struct serve_job {
    struct serve_job *next; // free list, I/O thread only
    uint64_t handle;
    struct bt_msg msg;
    bool degraded;         // the router marked it
    atomic_bool begun;     // it is being executed, or was
    atomic_bool cancelled; // its router took it back: the request is gone, nobody waits for the answer
};

struct serve_worker {
    struct serve_app *app;
    unsigned index;
    struct bt_server *server; // I/O thread only
    struct bt_txq *txq;       // where its packets go
    struct bt_spsc todo, done;
    sem_t work;
    pthread_t thread;
    bool running;
    struct serve_job *asleep;                // --occupy=sleep: what it sleeps for, I/O thread only; NULL: idle
    uint64_t until_ns;                       // when that is over
    struct bt_rng rng;                       // of the thread, or of the I/O thread without one
    struct serve_job *jobs, *free_jobs;      // I/O thread only
    struct serve_job *job_of[SERVE_PENDING]; // by the place of the request in the server's table, I/O thread only
    struct serve_job *waiting;               // whose reply found no buffer, I/O thread only; NULL: none
    uint64_t starved_ns;                     // since when no reply found one, 0: the last did
};

struct serve_app {
    struct serve_options opt;
    struct bt_network *network;
    struct bt_ctl_device device; // of the network, as it was opened
    struct bt_pool *pool;
    struct bt_io *io;
    struct bt_txq txq;
    struct serve_worker worker[SERVE_WORKERS_MAX];
    void *server_mem;
    struct bt_hist_slices *latency, *service;
    struct bt_trace_ring traces;
    struct bt_mailbox mailbox;
    struct bt_ctl *ctl;
    struct iovec *iov; // scratch of one reply
    int iov_max;
    uint8_t *reply; // reply_size bytes
    int executions; // --execution-log, -1 without
    uint64_t started_ns;
    uint16_t mtu; // in use
    bool leaving;
    atomic_bool stop;                        // worker threads end
    struct bt_flow *flow[SERVE_WORKERS_MAX]; // of each port; off until a configuration or an option wants it
    bool flow_alarmed;                       // somebody was told of c² above 20 (F-8)
    struct serve_scheduled *scheduled; // NULL: one I/O thread; else there are no jobs, and the loop is the threads' own
};

// How far a drain has come.
struct serve_drain {
    bool asked;
    uint64_t deadline_ns;
    uint64_t busy_ns;  // when there last was a new request or a backlog
    uint64_t requests; // requests so far, then
};

// What a job takes, drawn, in ns.
static inline uint64_t serve_time_of(struct serve_worker *w, const struct serve_job *job)
{
    return service_time_draw(job->degraded ? &w->app->opt.degraded : &w->app->opt.service, &w->rng);
}

enum bt_cli_result serve_options_read(int argc, char **argv, struct serve_options *opt);

extern const struct bt_ctl_app serve_ctl_app;

// workers.c: queues of all workers, threads of those that spin.
bool serve_workers_start(struct serve_app *app);
bool serve_workers_pin(const struct serve_app *app); // and the calling thread, which is the first
void serve_workers_stop(struct serve_app *app);

// flow.c: flow control (docs/concepts/flow-control.md).
bool serve_flow_open(struct serve_app *app); // one for each port
void serve_flow_close(struct serve_app *app);
void serve_flow_set(struct serve_app *app, const struct bt_fc_objective *o); // cores aside; NULL: off
void serve_flow_begin(struct serve_app *app);                                // with what the options say
void serve_flow_configure(struct serve_app *app, const struct bt_config_flow *flow);
void serve_flow_state(struct serve_app *app, struct bt_ctl_flow *out);
void serve_flow_counters(struct serve_app *app, struct bt_ctl_samples *out);

// sleepers.c: workers that sleep.
void serve_sleeper_begin(struct serve_worker *w, uint64_t now);   // there is a job in `todo`
uint64_t serve_sleepers_run(struct serve_app *app, uint64_t now); // returns when the next sleep ends

// executions.c: one line per request handed to the application (--execution-log).
bool serve_executions_open(struct serve_app *app);
void serve_executions_add(const struct serve_worker *w, const struct bt_server_request *rq);
struct serve_execution {
    uint64_t serial;
    unsigned port;
    const struct bt_addr *client;
    unsigned req_id;
};
void serve_executions_write(const struct serve_app *app, const struct serve_execution *x);

// loop.c
void serve_on_request(void *arg, const struct bt_server_request *rq, struct bt_txq *txq); // arg: serve_worker
void serve_leave(struct serve_app *app);
uint32_t serve_backlog(const struct serve_app *app);
enum bt_server_cancel serve_on_cancel(void *arg, uint64_t handle); // likewise
void serve_loop(struct serve_app *app);
bool serve_may_stop(struct serve_app *app, struct serve_drain *d); // told to, nothing left to do and quiet for a while

// scheduled.c: --mode: threads that take, execute and answer requests themselves (docs/concepts/scheduling.md).
bool serve_scheduled_open(struct serve_app *app, uint32_t incarnation);
bool serve_scheduled_start(struct serve_app *app);
void serve_scheduled_loop(struct serve_app *app); // the calling thread answers the control socket
void serve_scheduled_close(struct serve_app *app);
void serve_scheduled_configure(struct serve_app *app, const struct bt_config_scheduling *c);
void serve_scheduled_state(const struct serve_app *app, struct bt_ctl_scheduling *out);
void serve_scheduled_depth(struct serve_app *app, uint16_t n);
void serve_scheduled_counters(struct serve_app *app, struct bt_ctl_samples *out);
const struct bt_hist_slices *serve_scheduled_slices(const struct serve_app *app, bool latency); // of all ports
void serve_scheduled_traces(struct serve_app *app);                                             // into app->traces
uint32_t serve_scheduled_cores(const struct serve_app *app, uint32_t port);                     // that share it
uint32_t serve_scheduled_in_use(const struct serve_app *app);

#endif
