// SPDX-License-Identifier: Apache-2.0
// Two routers that must never differ: one takes every packet itself, the other lends its decisions to the program in
// the kernel and takes what that passes up. Both see the same packets at the same times, which are real ones: the
// program reads the kernel's clock.
#ifndef BOBTAIL_TESTS_FAST_TWINS_H
#define BOBTAIL_TESTS_FAST_TWINS_H

#include "fast/fast_internal.h"
#include "router/bed.h"
#include "wire/frame.h"

#define FRAME_MAX 2048u

enum twin_fate { TWIN_PASSED, TWIN_FORWARDED, TWIN_TAKEN, TWIN_DROPPED };

struct twins {
    struct bed whole, lending;
    struct bt_fast *fast;
    bool away;        /* as if packets to workers left by a device */
    uint32_t segment; /* frames are batches of datagrams of so many bytes; 0: they are not */
    void (*sent)(void *arg, const struct bt_pkt *pkt); /* sees every packet that leaves, once */
    void *arg;
    struct {
        uint64_t forwarded, taken, passed;
    } saw;
};

/* k workers that joined with n each; the service has keys or not. False: this kernel, or this user, may not load
 * programs. */
bool twins_open(struct twins *t, uint32_t k, uint32_t n, bool away, bool keys);
void twins_close(struct twins *t);

/* Around one test: four workers of three each, and a loan that stands. */
void twins_set_up(struct twins *t, bool keys);
void twins_tear_down(struct twins *t);

/* Skips a test where twins_set_up() could load no program. */
void twins_need_program(const struct twins *t);

uint64_t twins_clock(void);

/* A frame around a UDP payload; returns its length. */
uint32_t twins_frame(uint8_t *frame, const struct bt_addr *from, const struct bt_addr *to, const uint8_t *payload,
                     uint32_t len, enum bt_udp_sum sum);

/* A plain request of TWINS_REQUEST_BODY bytes, and the frame around it from the bed's client; their lengths. */
#define TWINS_REQUEST_BODY 24u
uint32_t twins_request_payload(uint8_t *bytes, uint16_t req_id);
uint32_t twins_request_frame(const struct twins *t, uint8_t *frame, enum bt_udp_sum sum);

/* Runs the program alone. out: the packet as it leaves. */
enum twin_fate twins_run(struct twins *t, const uint8_t *frame, uint32_t len, uint8_t *out, uint32_t *out_len);

/* One packet to both routers; fails the test when they treat it differently. */
enum twin_fate twins_packet(struct twins *t, const struct bt_addr *from, bool feedback, const uint8_t *payload,
                            uint32_t len, enum bt_udp_sum sum);

/* Timers of both, then the loan of one. */
void twins_turn(struct twins *t);

/* Ends the loan, and compares everything the two routers know. */
void twins_compare(struct twins *t);

#endif
