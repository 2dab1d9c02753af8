// SPDX-License-Identifier: Apache-2.0
// A whole message as the application sees it: a chain of packets whose data is
// payload only, in order (R-44: zero copy). Also the split of a message into
// packets (§4) that both sides use.
#ifndef BT_RPC_MSG_H
#define BT_RPC_MSG_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "base/pkt.h"

struct bt_msg {
    struct bt_pkt *head;
    uint32_t len;     // bytes in all
    uint32_t packets; // packets in the chain
};

// Fills iov[0..max) with the chain's pieces; returns how many there are, which
// may be more than max. Empty pieces are left out.
int bt_msg_iov(const struct bt_msg *msg, struct iovec *iov, int max);

// Copies up to n bytes to dst, returns the bytes copied.
size_t bt_msg_copy(const struct bt_msg *msg, void *dst, size_t n);

// Gives the packets back and empties the message.
void bt_msg_free(struct bt_msg *msg, struct bt_pool *pool);

// Where to continue reading an iovec list.
struct bt_iov_cursor {
    const struct iovec *iov;
    int left;   // iovecs left
    size_t off; // into the first of them
};

// Bytes in an iovec list; UINT32_MAX when it is longer than that.
uint32_t bt_iov_length(const struct iovec *iov, int n);

// The part of bt_iov_take that takes pieces of iovecs, or several.
void bt_iov_take_pieces(struct bt_iov_cursor *c, struct bt_pkt *pkt, uint32_t n);

// A copy that is mostly short: of 8 to 16 bytes it is two words, which may overlap.
static inline void bt_copy_short(uint8_t *to, const uint8_t *from, uint32_t n)
{
    uint64_t head, tail;
    if (n < sizeof head || n > 2 * sizeof head) {
        memcpy(to, from, n);
        return;
    }
    memcpy(&head, from, sizeof head);
    memcpy(&tail, from + n - sizeof tail, sizeof tail);
    memcpy(to, &head, sizeof head);
    memcpy(to + n - sizeof tail, &tail, sizeof tail);
}

// Appends the next n bytes to pkt; the caller knows they are there and fit.
static inline void bt_iov_take(struct bt_iov_cursor *c, struct bt_pkt *pkt, uint32_t n)
{
    if (c->left != 1 || n == 0 || n != c->iov->iov_len - c->off) {
        bt_iov_take_pieces(c, pkt, n);
        return;
    }
    uint8_t *to = bt_pkt_append(pkt, n); // what is left is one piece, as nearly always
    if (to) {
        bt_copy_short(to, (const uint8_t *)c->iov->iov_base + c->off, n);
    }
    c->left = 0;
}

#define BT_SPLIT_FIRST 14u // request bytes in REQ0 of a multi-packet request: a 64-byte frame

// How a message is cut: packet 0 carries `first` bytes, others `rest`.
struct bt_split {
    uint32_t count; // packets, 1…65535
    uint16_t first, rest;
};

// Request of len bytes: one packet when it fits in `single`, else 14 bytes in
// REQ0 and `full` in each of the others. count 0: more than 65,535 packets.
struct bt_split bt_split_request(uint32_t len, uint32_t single, uint32_t full);

// Reply of len bytes: `first` in packet 0, `full` in the others.
struct bt_split bt_split_reply(uint32_t len, uint32_t first, uint32_t full);

#endif
