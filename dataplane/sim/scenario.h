// SPDX-License-Identifier: Apache-2.0
// A scenario after its open values were drawn: plain numbers, no pointers into the YAML document.
#ifndef BOBTAIL_SIM_SCENARIO_H
#define BOBTAIL_SIM_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream.h"

enum { SIM_FAULTS_MAX = 28, SIM_EVENTS_MAX = 32, SIM_EXPECT_MAX = 24, SIM_NAME = 64, SIM_DRAWN = 2048 };
enum { SIM_WORKERS_MAX = 1000, SIM_ROUTERS_MAX = 8, SIM_CLIENTS_MAX = 8192, SIM_THREADS_MAX = 64 };
enum { SIM_LINKS_MAX = 16, SIM_PHASES_MAX = 16, SIM_GRID_MAX = 32, SIM_PATH = 256 };

/* Packet kinds a fault may aim at. The first eight follow the header's message types. */
enum sim_packet {
    SIM_PKT_REQ0,
    SIM_PKT_REPLY,
    SIM_PKT_FEEDBACK,
    SIM_PKT_REQRDY,
    SIM_PKT_DROP,
    SIM_PKT_SACK,
    SIM_PKT_REQN,
    SIM_PKT_CANCEL,
    SIM_PKT_ANY,
    SIM_PKTS
};

enum sim_fault_kind {
    SIM_FAULT_LOSS,
    SIM_FAULT_DUPLICATE,
    SIM_FAULT_REORDER,  /* held back so that later packets of the same pair of nodes overtake it */
    SIM_FAULT_DELAY,    /* a spike: the packet and those behind it come late, in order */
    SIM_FAULT_CORRUPT,  /* one flipped bit: caught by the UDP checksum, or by the tag when that is on */
    SIM_FAULT_BURST,    /* up to 16 bytes changed */
    SIM_FAULT_TRUNCATE, /* the end is missing */
    SIM_FAULT_RESEND,   /* the same REQ0 comes once more, later and by way of another router */
    SIM_FAULTS
};

struct sim_fault {
    char name[SIM_NAME];
    enum sim_packet packet;
    enum sim_fault_kind kind;
    double probability;
    uint64_t extra_ns; /* reorder, delay, duplicate: how much later */
    uint64_t from_ns, until_ns;
};

enum sim_event_kind {
    SIM_EV_CRASH_SERVER,    /* kill -9; comes back after for_ns with a new incarnation */
    SIM_EV_CRASH_ROUTER,    /* loses counters and held requests; comes back after for_ns */
    SIM_EV_LEAVE_SERVER,    /* LEAVE, drains, comes back after for_ns */
    SIM_EV_SET_DEPTH,       /* the worker changes its n */
    SIM_EV_PARTITION,       /* worker cut off from every router for for_ns */
    SIM_EV_RECONFIGURE,     /* router applies a configuration with another depth */
    SIM_EV_SET_BACK_SERVER, /* a crash; the wall clock was set back, so the new incarnation is older */
    SIM_EV_PAUSE,           /* the process of `role` is frozen: SIGSTOP, a long GC pause; packets wait */
    SIM_EV_SLOW_SERVER,     /* service takes `value` times as long */
    SIM_EV_STALL_SERVER,    /* no service ends; the library goes on */
    SIM_EV_REFUSE_SERVER,   /* the application drops every request at once: a black hole (R-139a) */
    SIM_EV_CUT,             /* `between` two roles: one node of the first and all of the second, by `direction` */
    SIM_EV_CLOCK_LEAP,      /* clock of `role` jumps ahead by for_ns */
    SIM_EV_CLOCK_STOP,      /* clock of `role` stands still for for_ns */
    SIM_EV_CLOCK_DRIFT,     /* clock of `role` runs at 960 + 2 × value of 1024 for for_ns */
    SIM_EV_CLOCK_BACK,      /* clock of `role` goes back by for_ns; a router's stands still instead */
    SIM_EV_UNREACHABLE,     /* somebody tells a router that a live worker cannot be reached */
    SIM_EV_STARVE,          /* `role` has only `value` packet buffers for for_ns */
    SIM_EV_PAUSE_THREAD,    /* one thread of a router on two does not run for for_ns; value odd: that of FEEDBACK */
    SIM_EV_KINDS
};

/* Order of sim_who_names, sim_between_names, sim_direction_names. */
enum sim_who { SIM_WHO_CLIENT, SIM_WHO_ROUTER, SIM_WHO_SERVER };
enum sim_between { SIM_CLIENT_ROUTER, SIM_CLIENT_SERVER, SIM_ROUTER_SERVER };
enum sim_direction { SIM_BOTH_WAYS, SIM_FORTH_ONLY, SIM_BACK_ONLY }; /* which packets are lost */

struct sim_happening {
    enum sim_event_kind kind;
    uint64_t at_ns, for_ns; /* at counts from the start of the load */
    uint32_t target;        /* index, taken modulo the number of such nodes */
    uint32_t value;         /* depth, factor, buffers */
    uint32_t role;          /* whose clock, process or buffers: enum sim_who */
    uint32_t between, direction;
    uint32_t number; /* place in the file; --without=event<number> leaves it out */
};

/* What a run must show. Without reference it is only printed. */
struct sim_expect {
    char measure[SIM_NAME];
    double low, high;
    int line;
};

/* Which waiting request a server takes next. */
enum sim_discipline { SIM_SERVE_FCFS, SIM_SERVE_SJF, SIM_SERVE_EDF };
enum { SIM_DEADLINE = 5 /* own service times of a request under EDF */ };

enum sim_arrivals { SIM_ARRIVE_POISSON, SIM_ARRIVE_FIXED, SIM_ARRIVE_MMPP, SIM_ARRIVE_TRACE };

/* Markov-modulated Poisson arrivals of two states, each left after an exponential time. */
struct sim_mmpp {
    double quiet_load, burst_load; /* as clients.load */
    uint64_t quiet_ns, burst_ns;   /* mean time in each */
};

struct sim_phase {
    double load;
    uint64_t for_ns; /* the last phase lasts to the end */
};

/* Which end of a link. The first three are enum sim_role. */
enum { SIM_END_CLIENT, SIM_END_ROUTER, SIM_END_WORKER, SIM_END_ANY };
enum { SIM_JITTER_UNIFORM, SIM_JITTER_EXPONENTIAL, SIM_JITTER_LOGNORMAL };

/* What differs from `network` for packets between certain nodes; of several that match, the last counts. */
struct sim_link {
    char name[SIM_NAME];
    uint32_t from, to;
    double from_index, to_index; /* one node of that role; -1: all of them */
    double delay_us;             /* -1: that of network */
    uint32_t jitter;             /* how the jitter is distributed */
    uint64_t jitter_ns;          /* greatest of uniform, mean of the others */
    double gigabits;             /* rate at which the sender's device puts packets on this link; 0: at once */
    double loss, duplicate, reorder;
    uint64_t reorder_ns; /* a reordered packet is held back up to so long */
};

struct sim_list {
    uint32_t n;
    double v[SIM_GRID_MAX];
};

/* Points of a scenario that sweeps; an empty list: the scenario's own value. */
struct sim_grid {
    struct sim_list load, depth, policy, workers;
    uint32_t seeds; /* of each point, from the scenario's seed on */
};

/* Recorded arrivals and service times, read once and shared by all runs of a template. */
struct sim_recording {
    size_t n;
    uint64_t *at_ns;      /* since the first arrival; NULL: the file has no such column */
    uint64_t *service_ns; /* likewise */
    uint64_t *count;      /* how often each was seen; likewise */
};

struct sim_delays {
    uint64_t client_router_ns, router_server_ns, server_router_ns, server_client_ns, client_server_ns;
    uint64_t jitter_ns; /* uniform 0…jitter, order of a pair of nodes kept */
};

struct sim_scenario {
    char name[SIM_NAME];
    uint64_t seed;
    uint64_t requests;
    double warmup; /* share of the requests not measured */
    uint32_t device, settle_ms, probes;
    uint32_t one_seed_in; /* a sweep deals this file only every so many of its seeds: it is slow; 0 or 1: all */
    bool tagged;          /* the service has a key */

    /* sizes of tables and pools; 0: ample */
    uint32_t client_calls, client_replies, client_packets;
    uint32_t server_pairs, server_assemblies, server_held, server_packets;
    uint32_t router_pairs, router_packets;
    bool clocks_differ; /* every node's clock starts somewhere else */
    double unreachable; /* share of packets to a dead process that come back as ICMP */

    bool checks;        /* judge every packet also in a run without faults */
    uint32_t series_ms; /* width of a row of the time series */
    char trace_file[SIM_PATH];
    bool trace_repeat;
    const struct sim_recording *recording; /* the template's; NULL: none */
    const struct sim_times *times; /* likewise: service times that were counted, to be drawn from; NULL: row by row */

    uint32_t workers, threads, depth, legacy_workers;
    uint32_t discipline; /* enum sim_discipline */
    struct sim_dist service;
    double hiccups;     /* share of executions, not of requests, that last longer */
    uint64_t hiccup_ns; /* by so much */
    uint32_t server_max_message;

    uint32_t routers, policy, forwarding, central_limit, hold_back_packets;
    uint64_t max_queue_ns, request_timeout_ns, hold_back_ns;
    uint32_t router_threads;           /* 2: REQ0 and FEEDBACK apart */
    uint64_t thread_lag_ns;            /* a thread that is wanted runs so much later at most */
    double thread_between;             /* share of FEEDBACKs behind which the other thread gets its turn */
    uint32_t notes_room, credits_room; /* of the queues between the threads; 0: as shipped */

    /* routers: admission control and hedged requests; modes as in src/router, 0: off */
    uint32_t admission_mode, admission_controller;
    uint64_t admission_slo_ns;
    double admission_percentile;
    uint32_t hedging_mode, hedging_busy, hedging_budget, hedging_probes;
    double hedging_percentile;
    uint32_t hedging_cancellation;
    uint64_t hedging_cancel_ns; /* a copy of an answered request must have ended after so long; 0: not checked */
    double ignored_cancels;     /* share of CANCELs that applications do not heed */

    uint32_t clients;
    double load;       /* of workers × threads ÷ mean service time */
    double burst;      /* share of arrivals that come at the same instant as the one before */
    uint32_t arrivals; /* enum sim_arrivals */
    struct sim_mmpp mmpp;
    struct sim_phase phase[SIM_PHASES_MAX];
    uint32_t phases_n;
    uint64_t timeout_ns;
    double plain_share; /* clients that do not set X */
    uint32_t request_bytes, reply_bytes, long_bytes;
    double long_requests, long_replies, sticky, direct;
    double prioritised, spared; /* share of requests that ask for a class above 3, and for not to be dropped */

    struct sim_delays delay;
    uint32_t racks; /* node i of every role stands in rack i modulo this */
    uint64_t same_rack_ns, cross_rack_ns;
    struct sim_link link[SIM_LINKS_MAX];
    uint32_t links_n;
    double garbage_per_second; /* malformed packets to each router, server and client */

    /* strangers whose requests of several packets never become whole */
    uint32_t half_open_sources;
    double half_open_per_second; /* of each */
    bool half_open_spoofed;      /* each request names another address */

    struct sim_fault fault[SIM_FAULTS_MAX];
    uint32_t faults_n;
    struct sim_happening event[SIM_EVENTS_MAX];
    uint32_t events_n;
    struct sim_expect expect[SIM_EXPECT_MAX];
    uint32_t expect_n;
    struct sim_grid grid;

    char drawn[SIM_DRAWN]; /* "routers.count=2 faults[0].probability=0.013 …": what this seed chose */
};

extern const char *const sim_packet_names[SIM_PKTS + 1];
extern const char *const sim_fault_names[SIM_FAULTS + 1];
extern const char *const sim_event_names[SIM_EV_KINDS + 1];
extern const char *const sim_discipline_names[]; /* by enum sim_discipline */
extern const char *const sim_measure_names[];

struct sim_template; /* a parsed YAML file, open values still open */

/* Reads and checks a file; NULL and a message "FILE:LINE:COLUMN: field: what is wrong" in err. */
struct sim_template *sim_template_load(const char *path, char *err, size_t err_n);
void sim_template_free(struct sim_template *t);
/* Closes the open values by `seed` (0: the file's own) into *out. 0, or -1 with a message. */
int sim_template_draw(const struct sim_template *t, uint64_t seed, struct sim_scenario *out, char *err, size_t err_n);
/* Reads text from memory instead; `path` names it in messages and is where a traceFile is looked for. */
struct sim_template *sim_template_parse(const char *path, const char *text, size_t n, char *err, size_t err_n);
/* Defaults of every field, before a file says otherwise. */
void sim_scenario_defaults(struct sim_scenario *s);

#endif
