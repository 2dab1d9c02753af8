// SPDX-License-Identifier: Apache-2.0
// The requests on one connection, in the order they were sent, and which of the kernel's or the
// device's stamps belongs to which of them. The kernel stamps bytes, not requests: a transmission
// stamp names the last byte of a send by its number since the connection began (L-51), a receive
// stamp belongs to the last byte that a read returned (L-53).
#ifndef BT_LANCET_FLIGHT_H
#define BT_LANCET_FLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lancet/reply.h"

#define BT_FLIGHT_MAX 1024u
#define BT_NO_STAMP   UINT64_MAX

struct bt_flight_slot {
    uint64_t intended_ns, sent_ns;
    uint64_t tx_stamp_ns; // BT_NO_STAMP: none yet
    uint32_t end;         // how many bytes the connection had carried behind this request, modulo 2^32
    uint32_t window;      // the measurement it counts for, 0: none
    uint32_t sample;      // its record there, UINT32_MAX: none
    uint8_t operation;
    bool over; // ended already, by a timeout; its reply only keeps the place
    struct bt_expect expect;
};

struct bt_flight {
    struct bt_flight_slot *slot;
    uint32_t mask, limit;
    uint32_t head, tail;   // oldest without a reply, next to be sent; free running
    uint32_t unstamped;    // oldest without a transmission stamp, head…tail
    uint32_t overdue;      // oldest that did not end, head…tail
    uint32_t bytes;        // sent so far, modulo 2^32
    uint64_t stale_stamps; // of bytes whose stamp is known or no longer of use
    uint64_t split_stamps; // receive stamps that no reply, or not every reply of a read, could use
    struct bt_reply reply; // being read, of the slot at head
    bool reading;
    uint8_t protocol;
};

// outstanding: 1…BT_FLIGHT_MAX; slots: the power of two at least as large.
void bt_flight_init(struct bt_flight *f, enum bt_reply_protocol protocol, struct bt_flight_slot *slots,
                    uint32_t outstanding);

static inline uint32_t bt_flight_count(const struct bt_flight *f)
{
    return f->tail - f->head;
}

// Room for a request of `bytes` bytes; NULL when as many are out as may be. The caller fills in the
// rest of the slot.
struct bt_flight_slot *bt_flight_send(struct bt_flight *f, uint32_t bytes);

// A transmission stamp for the byte with that number (0-based, modulo 2^32). One that is older than
// every byte waiting for a stamp is a retransmission's: counted, else ignored; one that is newer than
// several requests' ends is the stamp of all of them (L-52).
void bt_flight_tx_stamp(struct bt_flight *f, uint32_t last_byte, uint64_t ns);

// rx_stamp_ns: BT_NO_STAMP unless this reply ended with the last byte of the read.
typedef void bt_flight_reply_fn(void *arg, const struct bt_flight_slot *slot, uint64_t rx_stamp_ns,
                                const struct bt_reply *reply);

// Takes what one read returned, with its stamp, and calls back for every whole reply in it. NULL, or
// what is wrong with the bytes: then the connection has lost its place.
const char *bt_flight_receive(struct bt_flight *f, const uint8_t *data, size_t n, uint64_t stamp_ns,
                              bt_flight_reply_fn *on_reply, void *arg);

// The oldest request that has not ended, NULL when there is none; for timeouts. bt_flight_give_up ends
// it; its reply, should it come, is read and passed over.
struct bt_flight_slot *bt_flight_oldest(struct bt_flight *f);
void bt_flight_give_up(struct bt_flight *f);

#endif
