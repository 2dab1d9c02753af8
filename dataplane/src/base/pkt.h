// SPDX-License-Identifier: Apache-2.0
// The packet buffer every room passes on, the pool it comes from and the FIFO
// of packets a driver still has to send. One buffer holds one UDP payload.
#ifndef BT_BASE_PKT_H
#define BT_BASE_PKT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"

// Checksums at the border between a device and the code that reads or writes whole frames. A device that
// looked says OK or BAD; without either, software verifies. On the way out a set TX bit means that the field
// holds 0 (IP) or the folded pseudo-header sum (UDP) and the device completes it.
enum bt_pkt_offload {
    BT_PKT_RX_IP_OK = 0x01,
    BT_PKT_RX_IP_BAD = 0x02,
    BT_PKT_RX_L4_OK = 0x04,
    BT_PKT_RX_L4_BAD = 0x08,
    BT_PKT_TX_IP_SUM = 0x10,
    BT_PKT_TX_UDP_SUM = 0x20,
};

struct bt_pkt {
    uint8_t *data;        // first byte in use
    uint32_t len;         // bytes in use
    uint32_t room_before; // free bytes in front of data
    uint32_t room_after;  // free bytes behind data+len
    struct bt_addr src, dst;
    uint8_t tx_as_src; // 1: the driver must send with src as given (Transparent)
    uint8_t mark;      // free for the room that holds the packet
    uint16_t local;    // index of the local port it came in on or must leave by
    uint16_t index;    // place in its message (rpc)
    uint8_t ttl;       // TTL or hop limit it arrived with, 0 if the driver cannot know
    uint8_t offload;   // enum bt_pkt_offload: checksums the device has verified or still has to fill in
    uint64_t t_rx_ns;  // when the driver received it; 0 if unknown
    struct bt_pkt *next;
    void *owner; // the pool's own
};

// Never blocks; get returns NULL when nothing is left. A packet from get is
// empty (len 0), has its whole headroom back and zeroed metadata.
struct bt_pool {
    struct bt_pkt *(*get)(struct bt_pool *);
    void (*put)(struct bt_pool *, struct bt_pkt *);
};

// Intrusive FIFO: packets the driver must send and then put back.
struct bt_txq {
    struct bt_pkt *head, *tail;
    unsigned n;
};

static inline struct bt_pkt *bt_pool_get(struct bt_pool *pool)
{
    return pool->get(pool);
}

static inline void bt_pool_put(struct bt_pool *pool, struct bt_pkt *pkt)
{
    pool->put(pool, pkt);
}

// Puts back a whole chain; reads next before freeing.
void bt_pool_put_chain(struct bt_pool *pool, struct bt_pkt *head);

static inline void bt_txq_init(struct bt_txq *q)
{
    q->head = q->tail = NULL;
    q->n = 0;
}

static inline void bt_txq_push(struct bt_txq *q, struct bt_pkt *pkt)
{
    pkt->next = NULL;
    if (q->tail) {
        q->tail->next = pkt;
    } else {
        q->head = pkt;
    }
    q->tail = pkt;
    q->n++;
}

static inline struct bt_pkt *bt_txq_pop(struct bt_txq *q)
{
    struct bt_pkt *pkt = q->head;
    if (pkt) {
        q->head = pkt->next;
        if (!q->head) {
            q->tail = NULL;
        }
        pkt->next = NULL;
        q->n--;
    }
    return pkt;
}

// Appends n bytes and returns where they start, or NULL when there is no room.
static inline uint8_t *bt_pkt_append(struct bt_pkt *pkt, uint32_t n)
{
    if (n > pkt->room_after) {
        return NULL;
    }
    uint8_t *at = pkt->data + pkt->len;
    pkt->len += n;
    pkt->room_after -= n;
    return at;
}

// Opens n bytes in front and returns the new data, or NULL when there is no room.
static inline uint8_t *bt_pkt_push(struct bt_pkt *pkt, uint32_t n)
{
    if (n > pkt->room_before) {
        return NULL;
    }
    pkt->data -= n;
    pkt->len += n;
    pkt->room_before -= n;
    return pkt->data;
}

// Takes n bytes off the front, NULL when there are fewer.
static inline uint8_t *bt_pkt_pull(struct bt_pkt *pkt, uint32_t n)
{
    if (n > pkt->len) {
        return NULL;
    }
    pkt->data += n;
    pkt->len -= n;
    pkt->room_before += n;
    return pkt->data;
}

#define BT_PKT_BUFFER   2048u // bytes of one buffer of bt_pool_fixed
#define BT_PKT_HEADROOM 128u

// A pool over one preallocated slab; LIFO, single thread.
struct bt_pool_fixed {
    struct bt_pool pool; // first, so that &f->pool is the interface
    struct bt_pkt *free;
    uint8_t *slab;
    uint32_t count, left;
};

size_t bt_pool_fixed_bytes(uint32_t count);

// mem: bt_pool_fixed_bytes(count) bytes, aligned like malloc's. Returns f->pool.
struct bt_pool *bt_pool_fixed_init(struct bt_pool_fixed *f, void *mem, uint32_t count);

#endif
