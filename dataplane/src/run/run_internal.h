// SPDX-License-Identifier: Apache-2.0
// What the files of the runtime share. For every field it is said who may touch it: `core` its thread alone, `token`
// whoever holds the home's stack token (D-2).
#ifndef BT_RUN_INTERNAL_H
#define BT_RUN_INTERNAL_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "run/run.h"

#define RUN_LOOK_NS       UINT64_C(1000000) // how often the helper looks while handlers last
#define RUN_CALM_NS       UINT64_C(4000000) // while they are short, for so long:
#define RUN_CALM_AFTER_NS UINT64_C(1000000000)
#define RUN_REST_NS       UINT64_C(50000000) // and while nothing runs
#define RUN_SLOW_NS       UINT64_C(10000000) // a handler that takes longer is named (Z-02)
#define RUN_FLUSH_NS      UINT64_C(20000)    // replies of a batch wait for one another so long

// What is rare stays out of the way of what each request costs.
#define RUN_RARE __attribute__((noinline, cold))

enum {
    RUN_SMALL = 128, // a reply up to this needs no memory of its own
};

// A CANCEL and who executes it race for WAITING. It wins: GONE, and the request's bytes are no more. It comes later:
// UNWANTED, and the request is given up when its handler ends.
enum run_stage { RUN_WAITING, RUN_EXECUTING, RUN_GONE, RUN_UNWANTED };

// A request on its way. Its bytes are in packets of the home's pool.
struct bobtail_request {
    struct bt_sched_event event; // first
    _Atomic uint32_t stage;      // enum run_stage
    uint32_t reply_len;
    const uint8_t *reply; // NULL: none; else in `small`, in `heap`, or in the request
    struct run_home *home;
    struct run_core *core; // who executes it
    uint64_t handle;
    struct bt_msg msg;
    uint8_t *heap; // NULL, or allocated
    uint8_t class_flags;
    uint16_t req_id;              // of who asks for it
    struct bt_addr client;        // likewise
    uint64_t began_ns, took_ns;   // its execution: with run_home.clocked, else took_ns alone, with run_home.ticked
    struct bobtail_request *next; // in a list of jobs
    struct bobtail_bytes one;     // its bytes, where they are in one piece
    uint8_t small[RUN_SMALL];
};

struct run_list {
    struct bobtail_request *first, *last;
};

// The network of a home core (token). Cores of a lane that have no port have a home without one.
struct run_home {
    struct bt_run *run;
    struct run_lane *lane;
    uint32_t core; // of the lane
    uint32_t first_flow;
    struct bt_io *io;    // NULL: no port
    struct run_tcp *tcp; // NULL: no listener
    struct bt_server *server;
    struct bt_addr server_local; // of its port
    void *server_mem;
    size_t server_bytes;
    ptrdiff_t read_only;
    struct bt_txq txq;
    struct bobtail_request *jobs, *free;
    struct bobtail_request **job_of; // by place in the server's table
    struct bobtail_request **left;   // what a flow's execution left, by flow; who executes it, then the holder
    struct run_list stuck;           // replies that found no buffer, each with its flow
    uint64_t starved_ns;             // since when
    uint16_t granted;                // n told last
    bool own_turn;                   // the home core itself holds the token
    struct bobtail_request *batch[BT_IO_BATCH]; // core: to completion, what it took itself
    uint32_t taken, executed, answered;         // of them
    uint32_t room;                              // what may be taken without another look
    struct bt_hist_slices *service;             // NULL: not kept
    bool origins;                               // who sent a request is asked for
    const struct bt_flow *flow;                 // NULL: none
    // Flow control is on and asks when executions began and ended. Holder writes; who executes may see it late, and
    // that a request came before it was on, the server knows.
    _Atomic bool clocked;
    bool ticked; // how long an execution takes is asked
    uint32_t max_pending, max_message;
    uint64_t look_ns;                     // a sleeper looks at its network so often; 0: that wakes it, or due_ns
    _Atomic uint64_t backlog;             // requests that are here; holder writes
    _Alignas(64) _Atomic uint64_t due_ns; // when its timers want a turn; holder writes
    _Atomic uint64_t sleep_ns;            // until when its core sleeps, 0: it does not
};

struct run_core {
    struct bt_run *run;
    struct run_lane *lane;
    struct run_home *home;
    uint32_t self;   // of the lane
    uint32_t number; // of all
    pthread_t thread;
    bool running;
    int epoll_fd, wake_fd, timer_fd;
    uint64_t armed_ns; // when the timer goes off; UINT64_MAX: it is not set
    struct bt_rng rng;
    uint64_t work_ticks; // when it last found something
    // What it is at, so that another thread can go on when a handler ends this one.
    struct run_home *flow_home; // NULL: no flow of the scheduler
    uint32_t flow;
    struct bobtail_request *todo;                     // of that flow
    struct bobtail_bytes *piece;                      // of the request it executes
    _Alignas(64) _Atomic uint64_t turns;              // odd: in a handler
    _Atomic uint64_t named;                           // the turn that was counted as slow
    _Atomic uint64_t busy_ticks, slow, died, longest; // longest: a handler, in ticks
    _Atomic uint64_t idle_ticks, idle_since;          // without work: in all, and since when now, 0: it has some
    sem_t unpark;
    uint64_t looked, since_ns; // helper: turns at its last look, and since when they are the same
};

struct run_lane {
    struct bt_sched *sched;
    uint32_t first, cores;
    _Atomic uint32_t active;      // threads that run: the first of them; helper writes
    _Atomic uint32_t least, most; // of `active`; helper writes
    // The helper's.
    bool resize; // n has to follow
    struct bt_elastic controller;
    double *capacity;
    struct bt_measure measure;
    uint64_t waiting, looks; // requests that waited, summed over the looks of this interval
    uint64_t last_idle, last_done;
};

struct bt_run {
    struct bt_run_setup setup;
    struct bt_run_tcp tcp; // what setup.tcp is, when it is
    char *name;
    struct run_lane *lane;
    struct run_core *core;
    struct run_home *home; // one a core
    uint32_t lanes, pieces_max;
    double ns_per_tick;
    uint64_t spin_ticks, slow_ticks, flush_ticks;
    pthread_mutex_t threads; // core[].thread while they run
    bool started;
    _Atomic bool stop;
    _Atomic uint32_t hold;
    _Atomic uint32_t depth; // n as configured
    pthread_t helper;
    bool helping;
    sem_t helper_wake;
    atomic_bool helper_rests;
    uint64_t stayed_ns; // helper: when it last found a thread in the handler in which it had seen it before
    _Atomic uint64_t assisted;
    bool elastic;
    _Atomic uint64_t wanted; // threads that run, as configured: the least, and 32 bits higher the most
    uint64_t bounded;        // helper: what of it is in force
    bool per_client;         // token: a client is a flow (D-4)
    uint32_t batch;          // likewise: packets taken at once
    _Atomic uint64_t parks;
    uint64_t last_handled, last_busy, resize_ns; // helper
    double service_ns;                           // likewise: what a request took lately
    uint64_t taken_ns, ticked_ns, seen_ns;       // likewise: interval, decision, processors
};

static inline void run_list_add(struct run_list *l, struct bobtail_request *job)
{
    job->next = NULL;
    if (l->first == NULL) {
        l->first = job;
    } else {
        l->last->next = job;
    }
    l->last = job;
}

static inline struct bobtail_request *run_list_take(struct run_list *l)
{
    struct bobtail_request *job = l->first;
    if (job != NULL) {
        l->first = job->next;
    }
    return job;
}

static inline struct bobtail_request *run_job_of(struct bt_sched_event *event)
{
    return (struct bobtail_request *)(void *)event;
}

static inline uint64_t run_relaxed(const _Atomic uint64_t *v)
{
    return atomic_load_explicit(v, memory_order_relaxed);
}

// Of a number that one thread writes.
static inline void run_count(_Atomic uint64_t *v, uint64_t n)
{
    atomic_store_explicit(v, run_relaxed(v) + n, memory_order_relaxed);
}

// A clock that costs a few instructions, in units of its own.
static inline uint64_t run_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t t;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
    return t;
#else
    extern uint64_t run_clock_ns(void);
    return run_clock_ns();
#endif
}

static inline uint64_t run_ns_of(const struct bt_run *run, uint64_t ticks)
{
    return (uint64_t)((double)ticks * run->ns_per_tick);
}

static inline bool run_clocked(const struct run_home *home)
{
    return atomic_load_explicit(&home->clocked, memory_order_relaxed);
}

// Somebody asks how long executions take.
static inline bool run_timed(const struct run_home *home)
{
    return home->ticked || run_clocked(home);
}

// clock.c
uint64_t run_clock_ns(void);
double run_measure_ticks(void); // nanoseconds of one

// home.c
bool run_home_open(struct run_home *home, const struct bt_run_port *port, char *err, size_t errlen);
void run_home_close(struct run_home *home);
// Who calls holds the home's token, and has given it back when this returns. core NULL: no core. poll: look at the
// network, too.
void run_home_turn(struct run_home *home, struct run_core *core, bool poll);

// What has arrived is taken; the token stays.
void run_home_look(struct run_home *home);

// core.c
void run_core_run(struct run_core *core); // until the end
// A few steps of its loop, without sleep: for who plays a core.
void run_core_some(struct run_core *core, unsigned steps);
void run_core_wake(struct run_core *core);
void run_core_slow(struct run_core *core, uint64_t turn);

// sleep.c
bool run_sleep_open(struct run_core *core, char *err, size_t errlen);
void run_sleep_close(struct run_core *core);
void run_sleep(struct run_core *core);

// elastic.c
bool run_elastic_open(struct bt_run *run);
void run_elastic(struct bt_run *run, uint64_t now); // helper, at each look
uint32_t run_processors(void);                      // that the process may use; 0: nobody says
uint32_t run_lane_most(const struct bt_run *run, const struct run_lane *lane); // threads that may run
bool run_parked(const struct run_core *core);
void run_park(struct run_core *core);

// helper.c
bool run_helper_start(struct bt_run *run, char *err, size_t errlen);
void run_helper_stop(struct bt_run *run);
// Wakes one core of a lane that can take what was delivered to `home`.
void run_rouse(struct run_lane *lane, struct bt_run *run, uint32_t home);

#endif
