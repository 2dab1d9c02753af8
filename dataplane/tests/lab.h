// SPDX-License-Identifier: Apache-2.0
// One client, one server and the network between them, in memory, under
// virtual time, with seeded loss, duplication and reordering per packet kind.
#ifndef BT_TESTS_LAB_H
#define BT_TESTS_LAB_H

#include "base/rng.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "wire/feedback.h"

#define MS            1000000ull
#define SEC           1000000000ull
#define LAB_CALLS     4096
#define LAB_FEEDBACKS 8192

// Packet kinds faults are set for.
enum lab_kind { LAB_REQ0, LAB_REQN, LAB_REPLY, LAB_FEEDBACK, LAB_REQRDY, LAB_DROP, LAB_SACK, LAB_KINDS };

struct lab_faults {
    uint32_t lose[LAB_KINDS];      // in 1/1000
    uint32_t duplicate[LAB_KINDS]; // in 1/1000
    uint32_t delay[LAB_KINDS];     // in 1/1000: comes up to delay_ns later
    uint64_t delay_ns;
};

enum lab_path { LAB_DIRECT, LAB_ENCAPSULATED, LAB_TRANSPARENT };

enum lab_end { LAB_NONE, LAB_SUCCESS, LAB_TIMEOUT, LAB_ERROR };

struct lab_call {
    enum lab_end end;
    int ends; // callbacks seen: must become exactly 1
    int code;
    uint32_t reply_len;
    uint32_t want_reply;
    uint8_t salt;
    bool intact; // reply bytes as expected
    struct bt_reply_info info;
};

struct lab_flight {
    struct bt_pkt *pkt;
    uint64_t at;
    uint64_t order;
};

struct lab {
    uint64_t now;
    uint64_t seed;
    struct bt_rng rng;
    struct bt_client *client;
    struct bt_server *server;
    struct bt_client_cfg ccfg;
    struct bt_server_cfg scfg;
    bool try_send;     // lab_call goes through flow control (F-40)
    uint64_t retry_ns; // and this came of it
    struct bt_pool_fixed pool;
    void *pool_mem, *client_mem, *server_mem;
    size_t client_bytes, server_bytes;
    struct lab_faults faults;
    enum lab_path path;
    struct bt_addr caddr, saddr, raddr, rfeedback;
    struct bt_key router_key; // id 0: the router does not tag
    struct lab_flight *flight;
    uint32_t flights, flight_cap;
    uint64_t order;
    struct lab_call call[LAB_CALLS];
    int calls;
    // server application
    uint64_t service_ns; // 0: answer inside on_request
    bool hold;           // keep requests until lab_answer_all
    bool admit;
    bool refuse; // bt_server_drop instead of a reply
    uint64_t waiting[LAB_CALLS];
    uint64_t waiting_at[LAB_CALLS];
    uint8_t *waiting_body[LAB_CALLS];
    uint32_t waiting_len[LAB_CALLS];
    int waitings;
    int executed;
    int executed_of[LAB_CALLS]; // by call
    struct bt_server_request last_request;
    // FEEDBACK that reached the router
    struct bt_feedback feedback[LAB_FEEDBACKS];
    struct bt_r2p2_hdr feedback_hdr[LAB_FEEDBACKS];
    struct bt_addr feedback_to[LAB_FEEDBACKS];
    int feedbacks;
    int lost, duplicated, delayed;
    uint32_t sent[LAB_KINDS];
    uint32_t largest_burst;
    enum bt_server_cancel (*on_cancel)(void *arg, uint64_t handle); // of the server application
    void (*spy)(struct lab *l, const struct bt_pkt *pkt, const struct bt_r2p2_hdr *h);
};

// A lab with default configuration; change ccfg and scfg, then lab_start.
void lab_init(struct lab *l, uint64_t seed);
void lab_start(struct lab *l);
void lab_end(struct lab *l); // checks that no packet leaked

// Starts a request of len bytes that wants reply bytes back; returns the call's
// index, or the error of bt_client_send.
int lab_call(struct lab *l, uint32_t len, uint32_t reply, uint64_t timeout_ns);
int lab_call_with(struct lab *l, struct bt_request *rq, uint32_t len, uint32_t reply);

// Runs until `until` or, with until 0, until every call has ended and nothing is in flight.
void lab_run(struct lab *l, uint64_t until);
void lab_answer_all(struct lab *l);

// Hands one datagram straight to client or server and sends what comes out.
void lab_inject_client(struct lab *l, const void *bytes, size_t n, const struct bt_addr *src);
void lab_inject_server(struct lab *l, const void *bytes, size_t n, const struct bt_addr *src);

// Sends (delivers into the network) what is in txq.
void lab_transmit(struct lab *l, struct bt_txq *txq);
// Forgets every packet in flight.
void lab_flush(struct lab *l);

#endif
