// SPDX-License-Identifier: Apache-2.0
// What a story of fuzz_router is about: one router, on one thread or on two, and six workers that may say anything.
#ifndef BT_FUZZ_ROUTER_STORY_H
#define BT_FUZZ_ROUTER_STORY_H

#include "mutate.h"
#include "router/state.h"
#include "router/workers.h"
#include "router/router.h"

#define WORKERS 6u
#define PACKETS 96u
#define PAIRS   24u

struct story {
    struct input in;
    struct bt_router *decides, *hears; /* the router, and its core that takes FEEDBACK: the same on one thread */
    struct bt_txq port[2];             /* on two: arrived for requests and for FEEDBACK, not read */
    struct bt_txq out;
    struct bt_pool_fixed fixed;
    struct bt_pool *pool;
    uint64_t now;
    uint64_t received[WORKERS], served[WORKERS];
    uint32_t incarnation[WORKERS];
    struct bt_addr worker[WORKERS], client, requests, feedback;
    struct bt_keyring keys;
    bool configured; /* once */
    bool keyed;
    bool preempts;      /* or did, in an earlier setting */
    bool waits;         /* a packet of this sentence is not read at once */
    bool clean;         /* the packet being given has to leave the workers' state alone */
    uint64_t limit;     /* largest centralQueueLimit so far */
    uint8_t last[1600]; /* the last packet it was given, to be changed and given again */
    uint32_t last_n;
    bool pristine; /* it was not changed: a second change might undo the first */
    struct bt_addr last_from, last_to;
};

static inline bool on_two_threads(const struct story *s)
{
    return s->hears != s->decides;
}

/* router_check.c */
void story_check(struct story *s);                 /* after every sentence; takes what was sent */
uint64_t story_fingerprint(const struct story *s); /* of what a rejected packet must not change */

/* router_halves.c: a router on two threads, which is stepped in any order */
void halves_setup(struct bt_router_setup *setup, uint32_t how);
void halves_open(struct story *s);
void halves_give(struct story *s, bool feedback, struct bt_pkt *pkt);
void halves_turn(struct story *s, bool feedback, unsigned most); /* it reads so many packets at most */
void halves_tick(struct story *s, bool feedback);
void halves_check(const struct story *s);
void halves_close(struct story *s);

#endif
