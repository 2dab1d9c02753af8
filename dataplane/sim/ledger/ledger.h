// SPDX-License-Identifier: Apache-2.0
// The ledger: what must hold in every run, checked while it runs, kept apart from the code it judges. The world and its
// nodes call it by this header alone; it reads their state and changes none of it.
#ifndef BOBTAIL_SIM_LEDGER_H
#define BOBTAIL_SIM_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pkt.h"

struct sim_world;
struct bt_router_stats;

enum sim_invariant {
    SIM_INV_EXACTLY_ONCE,  /* every started request ends exactly once */
    SIM_INV_CONTENT,       /* a reply belongs to its request, byte for byte */
    SIM_INV_ONE_EXECUTION, /* one worker life never executes one request twice within the quarantine */
    SIM_INV_SERVED,        /* served <= received, both only grow, equal when idle */
    SIM_INV_SHARE,         /* n is shared among the routers heard in the last second */
    SIM_INV_REPLY_FIRST,   /* FEEDBACK after the last packet of the reply */
    SIM_INV_OWN_BOUND,     /* a router forwards only while outstanding < n */
    SIM_INV_TRUE_BOUND,    /* what a router really has at a worker exceeds n only by late REQ0s */
    SIM_INV_FIFO,          /* held requests leave in order of arrival */
    SIM_INV_HOLD_TIME,     /* nothing is held longer than maxQueue */
    SIM_INV_MEMBERSHIP,    /* nothing to a worker that left or never joined */
    SIM_INV_UNCHANGED,     /* a rejected packet changes nothing */
    SIM_INV_CREDITS,       /* idle => no credit outstanding anywhere */
    SIM_INV_CAPACITY,      /* idle => every worker eligible with its full n */
    SIM_INV_SERVICE,       /* after the faults every probe succeeds */
    SIM_INV_BUFFERS,       /* no packet buffer is kept for ever */
    SIM_INV_PROGRESS,      /* nothing hangs and no timer spins */
    SIM_INV_ID_REUSE,      /* no id that is pending or was released less than a quarantine ago */
    SIM_INV_OPEN,          /* what the client counts as pending is what the application waits for */
    SIM_INV_ARITHMETIC,    /* outstanding = sent − done − lost, and sent is what left the router */
    SIM_INV_AS_TOLD,       /* done, n and incarnation are those of the newest FEEDBACK */
    SIM_INV_LOST,          /* lost is what was sent T_loss ago and not received, no more, no less */
    SIM_INV_LEGACY,        /* a worker without counters gets credit back for each answer, and by T_leak */
    SIM_INV_LIVENESS,      /* silent for T_dead means suspect, heard means not */
    SIM_INV_EJECTION,      /* R-139a: never more than half the pool is out */
    SIM_INV_REFUSED,       /* one DROP for each refusal counted, of requests that may be refused */
    SIM_INV_ADMITTED,      /* idle => admission knows what became of every request, once */
    SIM_INV_HEDGED,        /* one copy at most, to an idle worker, within gate and budget */
    SIM_INV_LIVE_COPIES,   /* no more than two copies of a request are at workers */
    SIM_INV_CLEANED_UP,    /* an answered request has no live copy after a while */
    SIM_INV_PREEMPTED,     /* nothing waits at a router that has two live copies of a request */
    SIM_INV_HALVES,        /* a router decides by what its other half published last */
    SIM_INV_CONSERVED,     /* every packet is accounted for */
    SIM_INV_EXPECTED,      /* a scenario's own expectation */
    SIM_INVARIANTS
};

/* What a run is told about its invariants; plain data, so it can cross processes. */
struct sim_verdict {
    uint32_t broken[SIM_INVARIANTS]; /* times */
    uint64_t checked[SIM_INVARIANTS];
    uint64_t first_ns;
    uint32_t first_invariant;
    char first[200]; /* the first breach in words */
};

/* Per router and worker. */
struct sim_credit {
    uint64_t in_flight;        /* REQ0 on the way */
    uint64_t excused_until;    /* truth may exceed n before this time: late REQ0, restart */
    uint64_t received, served; /* highest seen in FEEDBACK the worker emitted in this life */
    bool left;                 /* the last FEEDBACK the router got said LEAVE or n = 0, or was sent before that */
    uint64_t left_at;          /* when it was first heard to */
    uint64_t told_unreachable; /* when an ICMP named the worker last: suspect until its next fresh FEEDBACK */
};

struct sim_ledger {
    struct sim_verdict verdict;
    struct sim_credit *credit;   /* routers × workers */
    struct sim_book *book;       /* likewise */
    uint64_t *refusals;          /* per worker: requests whose FEEDBACK said dropped */
    uint64_t *last_arrival;      /* per router: t_rx of the last held or forwarded request */
    bool bad_packet;             /* what a node reads now is corrupted or malformed and says nothing */
    struct sim_promise *promise; /* per router */
    uint64_t t_loss_ns, t_dead_ns, margin_ns, quarantine_ns;
    uint32_t turn;      /* rows of a router are looked at in turn */
    uint32_t concerned; /* beside that of the worker, from 1, whose FEEDBACK was read; 0: none was */
};

/* What a router's counters were when it sent last. */
struct sim_promise {
    uint32_t life;
    uint64_t dropped, refused, copies;
    uint32_t new_copies; /* the last packets of what it sends now */
};

extern const char *const sim_invariant_names[SIM_INVARIANTS];

void sim_ledger_init(struct sim_world *w);
void sim_ledger_free(struct sim_world *w);
/* Notes a breach: name it, say what was seen. */
void sim_breach(struct sim_world *w, enum sim_invariant inv, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static inline void sim_checked(struct sim_verdict *v, enum sim_invariant inv)
{
    v->checked[inv]++;
}

/* Called with what a node is about to send, before the driver takes it; promises.c first. */
void sim_check_promises(struct sim_world *w, uint32_t router, const struct bt_txq *q);
void sim_check_hedged(struct sim_world *w, uint32_t router, const struct bt_pkt *p);
void sim_check_admitted(struct sim_world *w, uint32_t router); /* when idle */
void sim_check_router_tx(struct sim_world *w, uint32_t router, const struct bt_txq *q);
void sim_check_server_tx(struct sim_world *w, uint32_t server, const struct bt_txq *q);
/* sim_net.watch; ctx is the world. */
void sim_check_watch(void *ctx, uint32_t from, uint32_t to, struct bt_pkt *p, uint64_t arrives_ns);
/* A packet that was on its way is no more: it reached its node, dead or alive. */
void sim_check_req0_gone(struct sim_world *w, uint32_t from, uint32_t to, const struct bt_pkt *p);
/* A router is about to read a FEEDBACK. */
void sim_check_feedback_in(struct sim_world *w, uint32_t router, const struct bt_pkt *p);
/* A router or a worker started anew. */
void sim_check_restart(struct sim_world *w, uint32_t router, uint32_t server);
/* The clock, the process or the buffers of a node are disturbed until then: what it learns, it may learn late. */
void sim_check_disturbed(struct sim_world *w, uint32_t node, uint64_t until);
/* A worker starts with an older incarnation: until when routers may refuse it. */
uint64_t sim_check_doubted(struct sim_world *w, uint32_t server);
/* A client is about to use an id it used before. */
void sim_check_id(struct sim_world *w, uint32_t client, uint16_t id);
/* After every step of a node (step.c). */
void sim_check_client_step(struct sim_world *w, uint32_t client);
void sim_check_server_step(struct sim_world *w, uint32_t server);
void sim_check_router_step(struct sim_world *w, uint32_t router);
void sim_check_halves(struct sim_world *w, uint32_t router); /* behind each turn of its REQ0 thread */
void sim_check_executed(struct sim_world *w, uint32_t server, uint32_t request);
void sim_check_answered(struct sim_world *w, uint32_t server, uint32_t request); /* its reply leaves */
void sim_check_preempted(struct sim_world *w, uint32_t router, const struct bt_router_stats *st);
void sim_check_let_go(struct sim_world *w, uint32_t server, uint32_t request); /* a CANCEL ended it there */
/* At the end of the load, at the end of the idle time, at the very end. */
void sim_check_ended(struct sim_world *w);
void sim_check_idle(struct sim_world *w);
void sim_check_probes(struct sim_world *w);
void sim_check_buffers(struct sim_world *w);

#endif
