// SPDX-License-Identifier: Apache-2.0
// Two clients, two routers and three workers on a network the fuzzer controls: the world of fuzz_system.
#ifndef BT_FUZZ_SYSTEM_H
#define BT_FUZZ_SYSTEM_H

#include "lan.h"
#include "router/router.h"
#include "rpc/client.h"
#include "rpc/server.h"

enum { CLIENTS = 2, ROUTERS = 2, SERVERS = 3, NODES = CLIENTS + ROUTERS + SERVERS };
enum { PACKETS = 96, CALLS = 200, JOBS = 16, BODY_MAX = 24000, BACK_MAX_US = 50000 };

#define US     UINT64_C(1000)
#define MS     UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

// What every node has: its own pool, part of it taken away at times, and its own clock.
struct box {
    struct bt_pool_fixed pool;
    struct bt_pkt *hoard;
    void *mem, *pool_mem;
    uint64_t skew; // added to the world's time
    uint64_t next; // when its core wants to be called, on its own clock
};

struct call {
    uint16_t req_id;
    uint8_t client, ends;
    uint32_t len;
};

struct job {
    uint64_t handle;
    uint8_t fill, sure; // byte the request was made of; sure: it had one
};

struct node_client {
    struct bt_client *core;
    uint32_t open; // requests started and not ended, by our own count
};

enum { THREAD_QUEUE = 4 }; // of credits and of notes between two threads

struct node_router {
    struct bt_router *core;
    uint32_t policy, limit;
    bool two;               // on two threads
    struct bt_txq inbox[2]; // of its threads: arrived, not read
    uint32_t asleep;        // a bit per half: REQ0, FEEDBACK
};

struct node_server {
    struct bt_server *core;
    uint32_t incarnation;
    struct job job[JOBS];
    uint32_t jobs;
    uint8_t refuse; // admission says no
    uint64_t received[ROUTERS], served[ROUTERS];
};

struct world {
    struct lan lan;
    uint64_t now;
    uint32_t gone_back_us;
    struct box box[NODES];
    struct node_client client[CLIENTS];
    struct node_router router[ROUTERS];
    struct node_server server[SERVERS];
    struct call call[CALLS];
    uint32_t calls;
    struct bt_keyring keys;
    uint32_t two; // a bit per router: it is on two threads
    bool keyed;   // FEEDBACK carries tags
    bool tainted; // a packet was changed, or a client started anew: contents may differ
    bool forged;  // without tags: a router may have been told anything
};

extern struct world w;

enum { FIRST_ROUTER = CLIENTS, FIRST_SERVER = CLIENTS + ROUTERS };

struct bt_addr sys_addr(uint32_t node, uint32_t port); // port 0, or 1 = FEEDBACK port of a router
uint32_t sys_node(const struct bt_addr *a, uint32_t *port);
uint64_t sys_clock(uint32_t node);

// system_nodes.c
void sys_open(uint8_t how);
void sys_start_client(uint32_t i, uint64_t seed);
void sys_start_router(uint32_t i);
void sys_start_server(uint32_t i, uint32_t incarnation);
bool sys_configure(uint32_t router, uint32_t bits, uint32_t depth, uint32_t limit, uint32_t timeout_ms);
void sys_routers_of(uint32_t server, uint32_t count);
int sys_request(uint32_t client, const struct bt_request *rq);
void sys_hoard(uint32_t node, uint32_t keep);
void sys_release(uint32_t node);
// Sends what a core produced after checking it.
void sys_out(uint32_t node, struct bt_txq *q);
void sys_tick(uint32_t node);
// len bytes from src to dst reach whom they are for; nothing happens when nobody is there or has room.
void sys_arrive(const struct bt_addr *src, const struct bt_addr *dst, const uint8_t *bytes, uint32_t len);

// system_threads.c
void sys_threads_start(uint32_t node);
void sys_threads_turn(uint32_t node, bool feedback, unsigned most); // reads so many packets at most
void sys_threads_tick(uint32_t node);
uint64_t sys_threads_next(uint32_t node);

// system_check.c
void sys_stats(uint32_t router, struct bt_router_stats *t);
void sys_check_sent(uint32_t node, const struct bt_txq *q);
void sys_check_node(uint32_t node);
void sys_check_end(void);

#endif
