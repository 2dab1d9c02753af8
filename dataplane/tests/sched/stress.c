// SPDX-License-Identifier: Apache-2.0
// The scheduler on real threads without a pause: one that sends, k that are cores, flows that move now and then.
//
//   stress REQUESTS [CORES]    prints lost, doubled and reordered requests; exit 1 when there is one, or when the run
//                              stole, borrowed or moved nothing
//
// Every request is executed once, those of a flow in the order they were sent, and gets one reply (Z-13, Z-21, Z-22).
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/spsc.h"
#include "sched/sched.h"

enum { CORES_MAX = 8, SLOTS = 4096, RING = 256, FLOWS = 61, GROUPS = 16, BATCH = 8, PATIENCE_SECONDS = 60 };
enum stage { FREE, SENT, EXECUTING, EXECUTED };

struct request {
    struct bt_sched_event event; /* first */
    uint64_t number;             /* of its flow */
    _Atomic uint32_t stage;
};

struct core {
    struct bt_spsc_ends ends; /* its network: the sender fills, the holder of its token takes */
    struct request *ring[RING];
    sem_t wake;
    struct bt_rng rng;
    uint32_t self;
    pthread_t thread;
};

static struct core core[CORES_MAX];
static struct request slot[SLOTS];
static uint64_t begun[FLOWS]; /* the next number that may begin: whoever executes the flow */
static struct request *left[FLOWS];
static struct bt_sched *s;
static uint32_t cores;
static _Atomic uint64_t doubled, reordered, replied, moves;
static _Atomic bool stop;
/* A network that changes its table between two packets: only the sender does, when a core has asked for it. */
static _Atomic uint32_t redirect_asked, redirect_done;
static uint32_t to_core[GROUPS];
static uint32_t move_to;

static void rouse(uint32_t c)
{
    if (bt_sched_rouse(s, c)) {
        sem_post(&core[c].wake);
    }
}

static bool is(struct request *r, enum stage was, enum stage next)
{
    uint32_t expected = was;
    return atomic_compare_exchange_strong_explicit(&r->stage, &expected, next, memory_order_acq_rel,
                                                   memory_order_acquire);
}

static void reply(uint32_t home, uint32_t flow)
{
    for (struct request *r = left[flow], *next; r != NULL; r = next) {
        next = (struct request *)(void *)r->event.next;
        doubled += !is(r, EXECUTED, FREE);
        atomic_fetch_add_explicit(&replied, 1, memory_order_release);
    }
    left[flow] = NULL;
    bt_sched_replied(s, home, flow);
}

static void move_on(uint32_t home)
{
    uint32_t at;
    bool empty = bt_spsc_waiting(&core[home].ends, &at) == 0;
    /* Time is whether the table has changed: the new home waits for that, or for a packet. */
    uint64_t now = atomic_load_explicit(&redirect_done, memory_order_acquire) != 0 ? 2 : 0;
    enum bt_sched_moved moved = bt_sched_move_step(s, home, empty, now);
    if (moved == BT_SCHED_MOVE_REDIRECT) {
        atomic_store_explicit(&redirect_asked, 1, memory_order_release);
    }
    moves += moved == BT_SCHED_MOVE_DONE;
}

static void network(uint32_t home)
{
    struct core *c = &core[home];
    do {
        uint32_t flow, at;
        while ((flow = bt_sched_finished(s, home)) != BT_SCHED_NONE) {
            reply(home, flow);
        }
        uint32_t n = bt_sched_batch(bt_spsc_waiting(&c->ends, &at), BATCH);
        for (uint32_t i = 0; i < n; i++) {
            struct request *r = c->ring[(at + i) % RING];
            if (!bt_sched_deliver(s, home, &r->event)) {
                fprintf(stderr, "stress: a packet of flow %u came to core %u, which is not its home\n", r->event.flow,
                        home);
            }
        }
        bt_spsc_taken(&c->ends, n);
        bt_sched_waiting(s, home, bt_spsc_count(&c->ends));
        move_on(home);
    } while (bt_sched_release(s, home));
}

static void handle(uint32_t self, const struct bt_sched_work *w)
{
    for (struct bt_sched_event *e = w->events; e != NULL; e = e->next) {
        struct request *r = (struct request *)(void *)e;
        doubled += !is(r, SENT, EXECUTING);
        reordered += r->number != begun[w->flow];
        begun[w->flow] = r->number + 1u;
        for (volatile uint32_t spin = bt_rng_below(&core[self].rng, 200); spin > 0; spin--) {
        }
        doubled += !is(r, EXECUTING, EXECUTED);
    }
    left[w->flow] = (struct request *)(void *)w->events;
    if (bt_sched_executed(s, self, w->flow)) {
        network(w->home);
    }
}

static void nothing(struct core *c)
{
    if (!bt_sched_sleep(s, c->self)) {
        sched_yield();
        return;
    }
    /* The ring is what the scheduler does not see; its hint may have been overwritten by an older look. */
    if ((bt_spsc_count(&c->ends) != 0 || stop) && bt_sched_rouse(s, c->self)) {
        return;
    }
    sem_wait(&c->wake);
}

static void *run_core(void *arg)
{
    struct core *c = arg;
    while (!stop) {
        struct bt_sched_work w;
        bt_sched_next(s, c->self, &c->rng, &w);
        if (w.wake != BT_SCHED_NONE) {
            sem_post(&core[w.wake].wake);
        }
        if (w.kind == BT_SCHED_NETWORK) {
            network(w.home);
        } else if (w.kind == BT_SCHED_HANDLE) {
            handle(c->self, &w);
        } else {
            nothing(c);
        }
    }
    return NULL;
}

/* The sender. */

static void change_table(void)
{
    if (atomic_load_explicit(&redirect_asked, memory_order_acquire) == 0) {
        return;
    }
    for (uint32_t g = 0; g < GROUPS; g++) {
        to_core[g] = bt_sched_move_set(s, g) ? move_to : to_core[g];
    }
    atomic_store_explicit(&redirect_asked, 0, memory_order_relaxed);
    atomic_store_explicit(&redirect_done, 1, memory_order_release);
}

static void begin_move(struct bt_rng *rng)
{
    uint32_t from = bt_rng_below(rng, cores), to = bt_rng_below(rng, cores);
    uint64_t set[BT_SCHED_GROUPS_MAX / 64] = {0};
    if (bt_sched_move_pending(s)) {
        return;
    }
    for (uint32_t g = 0; g < GROUPS; g++) {
        set[0] |= (uint64_t)(to_core[g] == from && bt_rng_below(rng, 2) == 0) << g;
    }
    atomic_store(&redirect_done, 0);
    move_to = to;
    if (bt_sched_move(s, from, to, set, 1)) {
        rouse(from);
        rouse(to);
    }
}

/* True when it comes true while there still is progress. */
static bool wait_for(bool (*done)(const void *), const void *arg)
{
    uint64_t seen = replied;
    time_t since = time(NULL);
    while (!done(arg)) {
        change_table();
        sched_yield();
        if (replied != seen) {
            seen = replied;
            since = time(NULL);
        } else if (time(NULL) - since > PATIENCE_SECONDS) {
            return false;
        }
    }
    return true;
}

static bool is_free(const void *arg)
{
    return atomic_load_explicit(&((const struct request *)arg)->stage, memory_order_acquire) == FREE;
}

static bool all_replied(const void *arg)
{
    return replied == *(const uint64_t *)arg && !bt_sched_move_pending(s);
}

static void put(uint32_t home, struct request *r)
{
    struct core *c = &core[home];
    uint32_t at;
    while (!bt_spsc_room(&c->ends, &at)) {
        rouse(home);
        sched_yield();
    }
    c->ring[at] = r;
    bt_spsc_filled(&c->ends);
    bt_sched_waiting(s, home, 1);
    rouse(home);
}

static uint64_t send_all(uint64_t requests)
{
    static uint64_t sent_of[FLOWS];
    struct bt_rng rng;
    bt_rng_seed(&rng, 7);
    for (uint64_t i = 0; i < requests; i++) {
        struct request *r = &slot[i % SLOTS];
        if (!wait_for(is_free, r)) {
            return i;
        }
        uint32_t flow = bt_rng_below(&rng, FLOWS);
        r->event.flow = flow;
        r->number = sent_of[flow]++;
        atomic_store_explicit(&r->stage, SENT, memory_order_release);
        change_table();
        put(to_core[flow % GROUPS], r);
        if (bt_rng_below(&rng, 4) == 0) {
            rouse(bt_rng_below(&rng, cores)); /* an idle core that polls what others have */
        }
        if (i % 1000 == 999) {
            begin_move(&rng);
        }
    }
    return requests;
}

static void start(void)
{
    struct bt_sched_setup setup = {
        .mode = BT_SCHED_WORK_STEALING, .cores = cores, .flows = FLOWS, .groups = GROUPS, .take_max = 3};
    size_t bytes = bt_sched_bytes(&setup);
    s = bt_sched_init(aligned_alloc(64, bytes), bytes, &setup);
    for (uint32_t f = 0; f < FLOWS; f++) {
        bt_sched_open(s, f, f % GROUPS);
    }
    for (uint32_t g = 0; g < GROUPS; g++) {
        to_core[g] = bt_sched_home(s, g);
    }
    for (uint32_t c = 0; c < cores; c++) {
        core[c].self = c;
        bt_spsc_ends_init(&core[c].ends, RING);
        bt_rng_seed(&core[c].rng, c + 1u);
        if (sem_init(&core[c].wake, 0, 0) != 0 || pthread_create(&core[c].thread, NULL, run_core, &core[c]) != 0) {
            fprintf(stderr, "stress: no thread\n");
            exit(1);
        }
    }
}

static void end(void)
{
    stop = true;
    for (uint32_t c = 0; c < cores; c++) {
        sem_post(&core[c].wake);
        pthread_join(core[c].thread, NULL);
    }
}

int main(int argc, char **argv)
{
    uint64_t requests = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000;
    uint32_t stolen = 0, borrowed = 0, astray = 0;
    cores = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 3;
    if (requests == 0 || cores < 2 || cores > CORES_MAX) {
        fprintf(stderr, "usage: stress REQUESTS [CORES]: 2 to %d cores\n", CORES_MAX);
        return 2;
    }
    start();
    uint64_t sent = send_all(requests);
    bool over = wait_for(all_replied, &sent);
    end();
    for (uint32_t c = 0; c < cores; c++) {
        struct bt_sched_counts counts;
        bt_sched_read_counts(s, c, &counts);
        stolen += counts.stolen;
        borrowed += counts.borrowed;
        astray += counts.astray;
    }
    uint64_t lost = requests - replied;
    printf("requests %lu lost %lu doubled %lu reordered %lu astray %u stolen %u borrowed %u moves %lu\n",
           (unsigned long)requests, (unsigned long)lost, (unsigned long)doubled, (unsigned long)reordered, astray,
           stolen, borrowed, (unsigned long)moves);
    free(s);
    return !over || lost + doubled + reordered + astray != 0 || stolen == 0 || borrowed == 0 || moves == 0;
}
