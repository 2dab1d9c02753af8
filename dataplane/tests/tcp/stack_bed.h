// SPDX-License-Identifier: Apache-2.0
// Two stacks in virtual time, each a copy of lwIP, and a wire between them that loses, repeats, reorders and damages
// packets as a seed says. The server says back what it hears, or somebody else plays it.
#ifndef BT_TESTS_STACK_BED_H
#define BT_TESTS_STACK_BED_H

#include "unit.h"

#include "base/rng.h"
#include "tcp/lwip/sizes.h"
#include "tcp/stack.h"
#include "wire/fc_signal.h"
#include "wire/tcp_flow.h"

enum { BUFFERS = 4096, FLIGHT = 4096, PORT = 7000, SERVER = 0, CLIENT = 1 };
#define MS UINT64_C(1000000)

struct packet {
    uint64_t due;
    int to;
    struct bt_pkt *pkt; // NULL: free
};

struct talk {
    struct end *end;
    struct bt_tcp_conn *conn; // NULL: gone
    uint8_t *got;
    uint32_t n, room;
    uint32_t sent; // client: of what it has to say
    uint32_t owed;
    bool opened, ended, gone, holds; // holds: takes nothing
    uint16_t signal;
    unsigned signals;
};

struct end {
    const struct bt_tcp_stack *stack;
    struct bt_pool_fixed pool;
    void *slab;
    struct bt_txq out;
    struct bt_addr at;
    struct talk *talk; // server: of the connections it gets
    unsigned talks, used;
    uint16_t tells;
};

// Who is the server in place of a stack of the bed's. Its packets are of its end's pool, and leave by its end's queue.
struct player {
    void (*takes)(struct bt_pkt *pkt);
    void (*turns)(void);
};

struct world {
    struct end end[2];
    struct player player; // of an end without a stack
    struct packet flight[FLIGHT];
    uint64_t now;
    struct bt_rng rng;
    unsigned loss, twice, late, damage; // of 1000
    struct talk talk[8], client;
    uint8_t said[400000];
    struct bt_pkt *seen; // a copy of the last segment with data to the server
    uint8_t syn_ack[100];
    uint32_t syn_ack_len;
};

extern struct world world;

// asks, answers: whether the client and the server want a window of tokens.
void open_world(bool v4, bool asks, bool answers);
// The client alone, which wants a window of tokens when it asks; the server is played.
void open_client(bool v4, bool asks, struct player server);
// All packets are back when both are closed.
void close_world(void);
void put_on_wire(int to, const uint8_t *bytes, uint32_t n, uint8_t offload);
void arrive(void);
// A tenth of a millisecond; the client says what it has not said of n bytes.
void turn(uint32_t n);
void dial(void);
// One more connection of the client's; what it hears is for its caller to take.
void dial_as(struct talk *t);
// Until n bytes are back, or so many turns are over.
void talk_for(uint32_t n, unsigned turns);
uint64_t counted(int which, enum bt_tcp_counter c);
// n bytes went and came back.
void hear_all(uint32_t n);
// A SYN of anybody's: its checksum is not looked at.
void syn(uint32_t from, uint16_t port, const uint8_t *options, uint32_t n);
// A segment of the client's, its numbers moved.
void forge(uint32_t port, uint32_t seq, uint32_t ack);
// Before the first test: what the client says, and a seed for the wire.
void prepare_world(void);

#endif
