// SPDX-License-Identifier: Apache-2.0
// What the files around one copy of lwIP share. Everything here exists once a copy.
#ifndef BT_TCP_LWIP_COPY_H
#define BT_TCP_LWIP_COPY_H

#include "tcp/stack.h"

#include "lwip/ip_addr.h"
#include "lwip/priv/tcp_priv.h"
#include "lwip/tcp.h"

struct bt_tcp_conn {
    struct tcp_pcb *pcb; // NULL: free
    void *own;           // NULL: nobody is told
    uint32_t owed;       // received and not taken
    bool half, asks, tokens, dirty;
    struct bt_tcp_conn *next, *before; // free ones; or those half open, oldest first
    struct bt_tcp_conn *next_dirty;
};

struct copy {
    struct bt_tcp_setup setup;
    bool open;
    const char *volatile broken; // what lwIP said last
    uint64_t now, next_tick, random;
    struct netif netif;
    struct tcp_pcb *listener;
    bool syn_asks; // of the SYN that is being taken
    uint32_t held, n_half;
    struct bt_tcp_conn *free, *half_first, *half_last, *dirty;
    uint64_t counters[BT_TCP_COUNTERS];
    struct bt_tcp_conn conn[BT_TCP_PCBS];
};

extern struct copy copy;

static inline void copy_count(enum bt_tcp_counter which)
{
    copy.counters[which]++;
}

// What it is to us, NULL: nothing.
struct bt_tcp_conn *copy_conn(const struct tcp_pcb *pcb);

// connection.c
bool connection_listen(char *err, size_t errlen);
void connection_init(void);
void connection_flush(void);
void connection_end_listening(void);
struct bt_tcp_conn *connection_connect(const struct bt_addr *to, void *own, uint64_t now);
uint32_t connection_write(struct bt_tcp_conn *c, const uint8_t *bytes, uint32_t n);
void connection_taken(struct bt_tcp_conn *c, uint32_t n);
void connection_end(struct bt_tcp_conn *c);
void connection_reset(struct bt_tcp_conn *c);
bool connection_tokens(const struct bt_tcp_conn *c);
uint32_t connection_count(void);
void connection_half_done(struct bt_tcp_conn *c);
// The oldest handshake gives way.
void connection_half_evict(void);

// A reason, cut where there is no more room.
void copy_says(char *err, size_t errlen, const char *text);
ip_addr_t copy_ip(const struct bt_addr *a);
struct bt_addr copy_addr(const ip_addr_t *ip, uint16_t port);

#endif
