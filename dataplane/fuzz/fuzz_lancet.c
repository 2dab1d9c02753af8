// SPDX-License-Identifier: Apache-2.0
// What a server under measurement may send: any bytes, in any pieces. The same bytes in one piece and in
// small ones must give the same replies, and a stamp goes to at most one reply of a read.
// Input: protocol, what was asked for (size or opcode), size of the pieces, then the bytes.
#include "lancet/flight.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD = 3, OUT = 8, SEEN = 16 };

struct seen {
    unsigned n, stamped;
    uint8_t verdict[SEEN];
    const char *bad;
    uint32_t left;
};

static void on_reply(void *arg, const struct bt_flight_slot *slot, uint64_t rx_stamp_ns, const struct bt_reply *reply)
{
    struct seen *s = arg;
    (void)slot;
    if (s->n >= OUT || reply->bad != NULL) {
        abort(); // more replies than requests, or a bad one handed on
    }
    s->stamped += rx_stamp_ns != BT_NO_STAMP;
    s->verdict[s->n++] = reply->verdict;
}

static void run(const uint8_t *data, size_t n, size_t step, struct seen *s)
{
    struct bt_flight_slot slots[OUT];
    struct bt_flight f;
    memset(s, 0, sizeof *s);
    bt_flight_init(&f, (enum bt_reply_protocol)(data[0] % BT_REPLY_PROTOCOLS), slots, OUT);
    for (unsigned i = 0; i < OUT; i++) {
        struct bt_flight_slot *slot = bt_flight_send(&f, 20);
        slot->expect = (struct bt_expect){.bytes = data[1] % 64 + 1, .opcode = data[1] & 1, .opaque = i};
        memcpy(&slot->expect.first, "xxxxxxxx", 8);
    }
    for (size_t at = HEAD; at < n && s->bad == NULL; at += step) {
        unsigned before = s->stamped;
        size_t part = n - at < step ? n - at : step;
        s->bad = bt_flight_receive(&f, data + at, part, at, on_reply, s);
        if (s->stamped > before + 1) {
            abort(); // L-53
        }
    }
    s->left = bt_flight_count(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct seen whole;
    struct seen pieces;
    if (n <= HEAD) {
        return 0;
    }
    run(data, n, n, &whole);
    run(data, n, (size_t)data[2] % 16 + 1, &pieces);
    // Bytes behind a closing reply are noticed only when they come with it.
    bool closing = whole.bad != NULL && strstr(whole.bad, "to end the connection") != NULL;
    if (!closing && (whole.n != pieces.n || whole.left != pieces.left || whole.bad != pieces.bad ||
                     memcmp(whole.verdict, pieces.verdict, sizeof whole.verdict) != 0)) {
        abort();
    }
    return 0;
}
