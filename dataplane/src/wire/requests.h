// SPDX-License-Identifier: Apache-2.0
// Where one request ends and the next begins in a stream of bytes, in four protocols (D-5): RESP (Redis), HTTP/1.1,
// memcached's text protocol, and messages behind a length of 32 bits. Nothing but the ends is looked at, and what does
// not let them be seen is refused: no request is ever begun in the middle of another one.
#ifndef BT_WIRE_REQUESTS_H
#define BT_WIRE_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

enum bt_framing { BT_FRAMING_RESP, BT_FRAMING_HTTP, BT_FRAMING_MEMCACHED, BT_FRAMING_U32, BT_FRAMINGS };

enum bt_framed {
    BT_FRAMED_WHOLE, // *len bytes are a request
    BT_FRAMED_MORE,  // not yet
    BT_FRAMED_MALFORMED,
    BT_FRAMED_TOO_LONG, // more than `max` bytes
};

// One stream. What was looked at is not looked at again when more bytes come.
struct bt_framer {
    enum bt_framing framing;
    uint32_t max;   // bytes of a request
    uint32_t at;    // of the request that begins at 0: bytes that are known
    uint32_t stage; // what is at `at`
    uint32_t left;  // RESP: elements
};

void bt_framer_init(struct bt_framer *f, enum bt_framing framing, uint32_t max);
// bytes[0…n) of a stream, at the beginning of a request; the same beginning as in the last call if that said MORE.
enum bt_framed bt_framer_next(struct bt_framer *f, const uint8_t *bytes, uint32_t n, uint32_t *len);

#endif
