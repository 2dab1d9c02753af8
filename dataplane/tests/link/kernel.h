// SPDX-License-Identifier: Apache-2.0
// A Linux host of its own (a network namespace) with a TAP device, and a link at the other end of the cable.
#ifndef BT_TESTS_LINK_KERNEL_H
#define BT_TESTS_LINK_KERNEL_H

#include "link/link.h"
#include "unit.h"

struct wire {
    int tap;
    struct bt_link *l;
    struct bt_pool_fixed fixed;
    struct bt_pool *pool;
    void *mem, *slab;
    bool echo;           // send every UDP payload back to where it came from
    struct bt_pkt *last; // the last payload that came, if not sent back
    unsigned received;   // payloads
    const char *refused; // why there is no such host here; NULL: there is
};

extern struct wire wire;

// Kernel: TAP "tap0" 10.55.0.1/24 fd55::1/64 and "far0" (MTU 1300) 10.66.0.1/24 fd66::1/64, forwarding. Link:
// 10.55.0.2 and fd55::2 with the kernel as gateway, ports 7000 (any IPv4), 7001 (any IPv6).
int wire_open(void **state);
int wire_close(void **state);
// Skips the test if this machine has no such host.
void wire_needed(void);

// Moves frames and time until `done` says so or two seconds of silence have passed. False: it never said so.
bool wire_until(bool (*done)(void *arg), void *arg);
// Moves frames for a while.
void wire_for(unsigned milliseconds);
// One UDP payload from a local port of the link.
void wire_send(uint16_t local, const char *to, const void *data, uint32_t n);
// One that claims to come from `from` and to have arrived with a TTL (Transparent).
void wire_send_as(const char *from, uint8_t ttl, const char *to, const void *data, uint32_t n);
uint64_t wire_counter(enum bt_link_counter c);
// Takes the next event, waiting for it. False: none came.
bool wire_event(struct bt_link_event *e);
// Runs a command in the host; fails the test if it fails.
void wire_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool wire_says(const char *command, const char *text);

// A kernel UDP socket bound to `at`.
int wire_socket(const char *at);
void wire_connect(int fd, const char *to);
// Waits for a datagram while frames move. Its length or -errno.
long wire_recv(int fd, void *buf, size_t n);
void wire_sockaddr(const char *text, void *sa, unsigned *len);

#endif
