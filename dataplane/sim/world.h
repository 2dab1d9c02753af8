// SPDX-License-Identifier: Apache-2.0
// One run: nodes made of the shipped cores, the network between them, the load and the ledger.
#ifndef BOBTAIL_SIM_WORLD_H
#define BOBTAIL_SIM_WORLD_H

#include "base/pkt.h"
#include "ledger/ledger.h"
#include "event.h"
#include "fault_clock.h"
#include "io/sim.h"
#include "net.h"
#include "router/router_stats.h"
#include "oracle.h"
#include "sample.h"
#include "scenario.h"
#include "wire/tag.h"

/* Opaque here: the headers of rpc and router are read only by the file that runs such a node. */
struct bt_client;
struct bt_server;
struct bt_router;
struct bt_msg;

enum sim_kind {
    SIM_EVENT_ARRIVE,
    SIM_EVENT_WAKE,
    SIM_EVENT_LOAD,
    SIM_EVENT_TURN, /* of a thread of a router; arg: which */
    SIM_EVENT_DONE,
    SIM_EVENT_HAPPENING,
    SIM_EVENT_BACK,
    SIM_EVENT_GARBAGE,
    SIM_EVENT_STRANGER,
    SIM_EVENT_UNREACHABLE
};

enum { SIM_BODY_MAX = 1 << 16, SIM_FIRST_INCARNATION = 1000 };

enum sim_outcome { SIM_PENDING, SIM_SUCCESS, SIM_TIMEOUT, SIM_DROPPED, SIM_ERROR, SIM_REFUSED, SIM_OUTCOMES };

enum {
    SIM_RQ_STICKY = 1,
    SIM_RQ_LONG_REQUEST = 2,
    SIM_RQ_LONG_REPLY = 4,
    SIM_RQ_DIRECT = 8,
    SIM_RQ_PROBE = 16,
    SIM_RQ_REPLIED = 32,
    SIM_RQ_MEASURED = 64,
    SIM_RQ_SPARED = 128 /* asked not to be dropped */
};

/* Everything known about one RPC; its index is the number in the request's body. */
struct sim_request {
    uint64_t sent_ns, ended_ns, service_ns;
    uint64_t replied_ns;  /* when a worker replied first; 0: none has */
    uint64_t answered_ns; /* when the worker named below replied; 0: it has not */
    uint16_t client, id;
    uint8_t outcome, endings, flags;
    uint8_t executions, live; /* begun, and going on or waiting at workers */
    uint16_t router, at;      /* last router that forwarded it, +1, and the worker it chose */
    uint16_t router2, at2;    /* the same of the time before */
    uint8_t asked;            /* class of its option; 0: it has none */
    uint8_t handed;           /* times a router sent it, hedged requests apart, and who last did, +1, and to whom */
    uint16_t handed_by, handed_to;
    uint64_t arrives_ns;   /* there */
    uint16_t worker, life; /* last worker that executed it, and in which of its lives */
};

/* What every node has. */
struct sim_node {
    struct sim_world *world;
    const bool *up; /* of a client always true */
    enum sim_role role;
    uint32_t index; /* within its role */
    uint32_t node;  /* within the network */
    void *mem;
    size_t mem_n;
    uint64_t due_ns;   /* when its core wants to run a timer, on its own clock */
    uint64_t wake_ns;  /* earliest SIM_EVENT_WAKE that is on the agenda */
    uint64_t asked_ns; /* due_ns for which one is; UINT64_MAX: the clock or the agenda changed since */
    struct sim_clock clock;
    uint64_t local_ns;     /* what its clock showed when a packet came last */
    uint64_t core_ns;      /* latest time its core was told: inside it time never goes back */
    uint64_t frozen_until; /* the process does not run before (world time) */
    struct bt_io_sim_net link;
    struct bt_io_sim io;
};

struct sim_client {
    struct sim_node n;
    struct bt_client *core;
    uint32_t router;  /* which one it uses now */
    uint32_t strikes; /* consecutive timeouts */
    bool extensions;
    uint32_t open;   /* started and not ended */
    uint32_t *by_id; /* req_id → request index + 1 */
    uint64_t *freed; /* req_id → when its last request ended, on the client's clock */
};

struct sim_job_waiting {
    uint64_t handle;
    uint32_t request;
    uint32_t turn; /* counts what the thread that serves it was given: an execution that was stopped does not end */
};

struct sim_server {
    struct sim_node n;
    struct bt_server *core;
    uint32_t life;          /* counts starts */
    uint32_t incarnation;   /* follows its wall clock, which may be set back */
    uint32_t depth, slow;   /* slow: service takes so many times as long */
    uint64_t stalled_until; /* no service ends before */
    uint64_t doubted_until; /* its incarnation is older than the one before: routers refuse it that long at most */
    bool up, legacy, leaving, refusing;
    uint32_t tries;                /* to answer a request in service, without a packet to do it with */
    struct sim_job_waiting *queue; /* ring: jobs accepted, not in service */
    uint32_t q_head, q_n, q_cap;
    struct sim_job_waiting *job; /* in service, by thread; handle 0: none */
    uint32_t running;            /* threads that serve */
};

/* Threads of a router on two, as its ports are numbered. */
enum { SIM_THREAD_REQ0, SIM_THREAD_FEEDBACK, SIM_THREADS };

/* One of them. */
struct sim_thread {
    struct bt_txq inbox;   /* at its port, not read yet */
    uint64_t turn_ns;      /* world time of its next turn; UINT64_MAX: nothing asks for one */
    uint64_t wanted_ns;    /* since when one was asked for */
    uint64_t last_ns;      /* when it had its last one, by its own clock */
    uint64_t paused_until; /* world time */
};

/* By which clocks the present turn of a REQ0 thread judges how old a request is. What was held before the turn
 * left while the first of them showed less than maxQueue; what left from place `ticked` on, while the second did. */
struct sim_judged {
    uint64_t done_ns;   /* that of its last turn */
    uint64_t credit_ns; /* of the first FEEDBACK whose credit waits for it; 0: none does */
    uint64_t begun_ns;  /* at least what its clock shows when it hands out what was held */
    uint64_t oldest_ns; /* of what it reads at its port: when the first came; UINT64_MAX: nothing does */
    uint64_t tick_ns;
    unsigned ticked;
};

/* Where a FEEDBACK half gives its packets back: that is a place between two of a burst. */
struct sim_gap {
    struct bt_pool pool; /* first */
    struct sim_router *router;
    bool open; /* the other thread may run there */
};

struct sim_router;

/* What differs between a router on one thread and on two. */
struct sim_router_form {
    void (*run)(struct sim_router *r, uint64_t now, struct bt_pkt *p); /* instead of a tick; NULL: it ticks */
    void (*settle)(struct sim_router *r);                              /* before a configuration */
    /* How old p, sent at this place of a turn, was at least by the clock that judged it; 0: read in this turn. */
    uint64_t (*held)(const struct sim_router *r, const struct bt_pkt *p, unsigned place);
    bool (*catch_up)(struct sim_router *r); /* reads all that there is; false: it cannot now */
    int64_t hold_slack_ns;                  /* a request may be held so much longer than maxQueue */
    bool bursts;                            /* FEEDBACK is read in bursts, and what was sent is known a little later */
};
extern const struct sim_router_form sim_router_two_threads; /* router_threads.c */

struct sim_router {
    struct sim_node n;
    struct bt_router *core;
    const struct sim_router_form *form;
    uint32_t life, depth;
    bool up;
    /* on two threads */
    struct sim_thread thread[SIM_THREADS];
    struct sim_judged judged;
    struct sim_gap between;
};

struct sim_world {
    const struct sim_scenario *s;
    struct sim_agenda agenda;
    struct sim_net net;
    struct sim_buffers buffers;
    struct bt_keyring keys;
    struct bt_rng stream[SIM_STREAMS];
    struct sim_node **node; /* by number in the network */
    struct sim_client *client;
    struct sim_router *router;
    struct sim_server *server;
    struct sim_request *request;
    uint64_t requests_made, requests_wanted, requests_ended, requests_main;
    uint64_t requests_warm;   /* measured from this one on */
    uint64_t requests_enough; /* run until so many have ended */
    uint64_t load_start_ns, load_end_ns, last_event_ns;
    double gap_ns;           /* mean time between arrivals; with load steps that of the lowest */
    bool bursting;           /* mmpp: which state */
    uint64_t state_until_ns; /* until when; 0: not drawn yet */
    bool watching;           /* run the per-packet checks; off in figure runs, which have no faults */
    bool stuck;              /* a breach after which going on makes no sense */
    uint8_t scratch[SIM_BODY_MAX];
    struct sim_ledger ledger;
    /* time integrals, for Little's law and work conservation */
    uint64_t integral_at_ns, in_system, in_service;
    double area, idle_while_waiting_ns;
    uint64_t window_from_ns, window_to_ns, window_arrivals, window_done;
    bool measuring;       /* between the two */
    bool unshaped;        /* all requests of the load are alike, so nothing is drawn for their shape */
    uint64_t threads_all; /* of all workers */
};

/* A figure run wants the samples back; the sweep wants only the verdict. */
struct sim_result {
    uint64_t seed;
    uint64_t outcome[SIM_OUTCOMES];
    uint64_t asked[2], answered[2]; /* requests of one packet, and of several */
    uint64_t packets, events, virtual_ns;
    double mean_ns, p50_ns, p99_ns, p999_ns, throughput; /* throughput: completions per worker and mean service time */
    double little_error, idle_while_waiting_ns;
    struct sim_faults_seen seen;
    uint64_t router_counter[BT_ROUTER_COUNTERS];
    struct sim_verdict verdict;
    double wall_seconds;
};

/* The whole load request by request, for comparing with a model sample by sample. */
struct sim_trace {
    struct sim_job *job;  /* n of them, in order of arrival */
    uint64_t *sojourn_ns; /* UINT64_MAX: not answered */
    size_t n;
};

/* Runs one drawn scenario. trace: NULL, or arrays of s->requests to be filled in. */
void sim_run(const struct sim_scenario *s, struct sim_result *out, struct sim_trace *trace);
/* The same, and *extras when it is not NULL. */
struct sim_extras;
void sim_run_full(const struct sim_scenario *s, struct sim_result *out, struct sim_trace *trace,
                  struct sim_extras *extras);

/* --- used between the files of the world ------------------------------------------------------ */
/* What the node's own clock shows. */
static inline uint64_t sim_node_now(const struct sim_node *n)
{
    return sim_clock_local(&n->clock, n->world->agenda.now);
}
/* What time it is inside its core, which does not follow a clock back, when its clock shows `now`. */
static inline uint64_t sim_node_core_at(struct sim_node *n, uint64_t now)
{
    n->core_ns = now > n->core_ns ? now : n->core_ns;
    return n->core_ns;
}
static inline uint64_t sim_node_core_now(struct sim_node *n)
{
    return sim_node_core_at(n, sim_node_now(n));
}
struct sim_node *sim_node_by(struct sim_world *w, enum sim_role role, uint32_t i);
/* a node at rest reads a packet, marked as what nobody may accept, that had to wait at its port. */
void sim_read_bad(struct sim_world *w, struct sim_node *n, struct bt_pkt *p);
/* Lets a node do what is due, after its clock or its process changed. */
void sim_node_run(struct sim_world *w, uint32_t node);
struct bt_addr sim_addr(struct sim_world *w, enum sim_role role, uint32_t i, uint32_t port);
void sim_node_init(struct sim_world *w, struct sim_node *n, enum sim_role role, uint32_t i);
/* Puts a wake-up on the agenda unless an earlier one is there. */
void sim_node_wake(struct sim_node *n, uint64_t next_ns);
/* Hands packets to the network. */
static inline void sim_node_send(struct sim_node *n, struct bt_txq *q)
{
    bt_io_sim_send_by(&n->io, q, sim_net_pass);
}
/* Sends what a core produced and asks to be woken when it wants to be. */
static inline void sim_node_after(struct sim_node *n, struct bt_txq *q, uint64_t next_ns)
{
    if (q->n > 0) {
        sim_node_send(n, q);
    }
    n->due_ns = next_ns;
    if (next_ns == n->asked_ns || next_ns == UINT64_MAX) {
        return;
    }
    n->asked_ns = next_ns;
    uint64_t at = next_ns - n->clock.skew; /* of a clock that runs as the world does */
    if (n->clock.odd || next_ns < n->clock.skew || at < n->wake_ns) {
        sim_node_wake(n, next_ns);
    }
}
struct bt_pool *sim_node_pool(struct sim_node *n);
/* Time went by since: adds it to the integrals. */
void sim_integrate_over(struct sim_world *w, uint64_t dt);
/* To be called before in_system or in_service changes. */
static inline void sim_integrate(struct sim_world *w)
{
    uint64_t dt = w->agenda.now - w->integral_at_ns;
    if (dt != 0) {
        sim_integrate_over(w, dt);
    }
}
uint32_t sim_node_of(struct sim_world *w, enum sim_role role, uint32_t i);
/* Request index of (client node address, req_id), UINT32_MAX when unknown. */
uint32_t sim_request_of(struct sim_world *w, const struct bt_addr *client, uint16_t id);

void sim_arrivals_init(struct sim_world *w);
/* ns from now to the next request. */
uint64_t sim_next_arrival(struct sim_world *w);
/* Service time of request `number`. */
uint64_t sim_service_ns(struct sim_world *w, uint64_t number);

void sim_client_start(struct sim_world *w, uint32_t i);
/* A node does what is due at `now` on its own clock; p arrived, or is NULL. */
void sim_client_run(struct sim_node *n, uint64_t now, struct bt_pkt *p);
void sim_client_load(struct sim_world *w);
void sim_client_stop(struct sim_world *w, uint32_t i);
/* Everything a node can be seen to know; two equal sums before and after a packet mean "unchanged". */
uint64_t sim_client_state(const struct sim_world *w, uint32_t i);
uint64_t sim_server_state(const struct sim_world *w, uint32_t i);
uint64_t sim_router_state(const struct sim_world *w, uint32_t i);

void sim_server_start(struct sim_world *w, uint32_t i);
void sim_server_run(struct sim_node *n, uint64_t now, struct bt_pkt *p);
/* Thread `thread` has served its request. */
void sim_server_done(struct sim_world *w, uint32_t i, uint32_t life, uint64_t which);
void sim_server_stop(struct sim_world *w, uint32_t i);
/* As sim_server_start; its wall clock was set back meanwhile. */
void sim_server_start_older(struct sim_world *w, uint32_t i);
void sim_server_leave(struct sim_world *w, uint32_t i);
void sim_server_depth(struct sim_world *w, uint32_t i, uint32_t depth);

void sim_router_start(struct sim_world *w, uint32_t i);
void sim_router_run(struct sim_node *n, uint64_t now, struct bt_pkt *p);
void sim_router_stop(struct sim_world *w, uint32_t i);
/* router_threads.c: a router on two threads. */
struct bt_router_setup;
void sim_threads_start(struct sim_router *r, struct bt_router_setup *setup); /* completes the setup */
void sim_threads_turn(struct sim_world *w, uint32_t node, uint32_t which);
/* A turn that is due now comes then. */
void sim_threads_postpone(struct sim_router *r, uint32_t which, uint64_t until_ns);
void sim_threads_pause(struct sim_router *r, uint32_t which, uint64_t until_ns);
bool sim_router_row(const struct sim_world *w, uint32_t i, uint32_t worker, struct bt_router_member_stats *out);
void sim_router_totals(const struct sim_world *w, uint32_t i, struct bt_router_stats *out);
/* Counters the worker keeps for one router; false when it is down or knows no such router. */
bool sim_server_counts(const struct sim_world *w, uint32_t i, uint32_t router, uint64_t *received, uint64_t *served);
/* Did a request of this router reach the worker within the last second, in this life? */
bool sim_server_heard(const struct sim_world *w, uint32_t i, uint32_t router);
/* What a scenario's events do, and how they end. */
void sim_happen(struct sim_world *w, const struct sim_happening *h);
void sim_come_back(struct sim_world *w, const struct sim_happening *h);
/* fault_icmp.c: a packet reached a host where nobody listens any more, or somebody says so. */
void sim_nobody_there(struct sim_world *w, const struct bt_pkt *p);
void sim_say_unreachable(struct sim_world *w, uint32_t whom, uint32_t about, uint64_t at_ns);
void sim_hear_unreachable(struct sim_world *w, uint32_t whom, uint32_t about);
void sim_client_unreachable(struct sim_world *w, uint32_t i, uint32_t router);
void sim_router_unreachable(struct sim_world *w, uint32_t i, uint32_t server);
/* Adds what the cores counted of full tables to what was seen; a stopped node is asked before it goes. */
void sim_client_harvest(struct sim_world *w, uint32_t i);
void sim_server_harvest(struct sim_world *w, uint32_t i);
void sim_router_harvest(struct sim_world *w, uint32_t i);
/* One malformed or forged packet to a random node. */
void sim_garbage(struct sim_world *w);
/* half_open.c: a stranger begins a request that never becomes whole. */
void sim_half_open(struct sim_world *w);
bool sim_router_configure(struct sim_world *w, uint32_t i, uint32_t depth);

/* Bodies: extra is the service time in a request, the worker in a reply. Returns len, at least 16. */
uint32_t sim_body_write(uint8_t *out, uint32_t len, uint32_t request, uint64_t extra);
/* Request number of a body, UINT32_MAX when a byte is wrong. extra may be NULL. */
uint32_t sim_body_read(const uint8_t *p, uint32_t len, uint64_t *extra);
/* The same of a whole message. */
uint32_t sim_body_of(struct sim_world *w, const struct bt_msg *msg, uint64_t *extra);

#endif
