// SPDX-License-Identifier: Apache-2.0
// Streams of requests in all four framings, in pieces of any size: where a request ends does not depend on the pieces,
// a request is never longer than allowed, and nothing outside of the bytes that are there is read.
#include "input.h"

#include "wire/requests.h"

enum { MAX = 300, SEEN = 64 };

struct ends {
    uint32_t at[SEEN];
    uint32_t n;
    enum bt_framed last;
};

/* The ends in a stream that comes in pieces of `step` bytes. */
static void frame(enum bt_framing framing, const uint8_t *bytes, uint32_t n, uint32_t step, struct ends *out)
{
    struct bt_framer f;
    uint32_t from = 0, there = 0;
    bt_framer_init(&f, framing, MAX);
    *out = (struct ends){.last = BT_FRAMED_MORE};
    while (out->n < SEEN) {
        uint32_t len = 0, have = there - from;
        uint8_t *exact = malloc(have != 0 ? have : 1); // of its size, for AddressSanitizer
        CHECK(exact != NULL);
        memcpy(exact, bytes + from, have);
        out->last = bt_framer_next(&f, exact, have, &len);
        free(exact);
        if (out->last == BT_FRAMED_WHOLE) {
            CHECK(len > 0 && len <= have && len <= MAX);
            from += len;
            out->at[out->n++] = from;
        } else if (out->last != BT_FRAMED_MORE || there == n) {
            return;
        } else {
            there = n - there < step ? n : there + step;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ends whole, pieces;
    if (size < 2 || size > 4096) {
        return 0;
    }
    enum bt_framing framing = data[0] % BT_FRAMINGS;
    uint32_t n = (uint32_t)size - 2;
    frame(framing, data + 2, n, n + 1, &whole);
    frame(framing, data + 2, n, 1u + data[1] % 7u, &pieces);
    CHECK(whole.n == pieces.n && memcmp(whole.at, pieces.at, whole.n * sizeof whole.at[0]) == 0);
    CHECK(whole.last == pieces.last || whole.last == BT_FRAMED_MALFORMED || pieces.last == BT_FRAMED_MALFORMED ||
          whole.last == BT_FRAMED_TOO_LONG || pieces.last == BT_FRAMED_TOO_LONG);
    CHECK((whole.last == BT_FRAMED_MORE) == (pieces.last == BT_FRAMED_MORE));
    return 0;
}
