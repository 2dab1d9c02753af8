// SPDX-License-Identifier: Apache-2.0
// Packets nobody should send, and what must not come of them: after a rejected packet the counter of its case has moved
// by one; the rest of the state is byte for byte what it was.
#ifndef BT_TESTS_HOSTILE_H
#define BT_TESTS_HOSTILE_H

#include "lab.h"

#define F 0x80
#define L 0x40
#define X 0x20

extern struct lab lab;
// The packet to inject: packet(), sack() and hex() write it.
extern uint8_t raw[4096];
extern size_t raw_len;

// The state of client or server, and how packets come to it.
struct side {
    uint8_t *mem;
    size_t bytes;
    const uint64_t *counters;
    unsigned n;
    void (*inject)(struct lab *l, const void *bytes, size_t n, const struct bt_addr *src);
};

struct side server_side(void);
struct side client_side(void);

// Injects the packet, which is counted as `counter` and changes nothing else.
void expect(const struct side *d, const char *what, const struct bt_addr *src, unsigned counter);

struct hostile_packet {
    unsigned type, policy, flags, id, count;
    size_t payload;
    uint8_t fill;
};
#define packet(...) write_packet(&(struct hostile_packet){__VA_ARGS__})
void write_packet(const struct hostile_packet *o);
void sack(unsigned id, unsigned what, unsigned base, unsigned nbits, size_t bytes);
void hex(const char *text);

// Starts a call and returns its id; lab.spy is spy_id.
uint16_t start_call(uint32_t len, uint64_t timeout);
void spy_id(struct lab *l, const struct bt_pkt *pkt, const struct bt_r2p2_hdr *h);

// What neither side takes from anybody; legal_type: what this side accepts.
void malformed_everywhere(const struct side *d, const struct bt_addr *src, uint8_t legal_type);
// Nor from a source like these; own: the side's address.
void bad_sources(const struct side *d, const struct bt_addr *own);

// Group teardown.
int free_snapshot(void **state);

#endif
