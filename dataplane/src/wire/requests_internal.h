// SPDX-License-Identifier: Apache-2.0
// What the framers share.
#ifndef BT_WIRE_REQUESTS_INTERNAL_H
#define BT_WIRE_REQUESTS_INTERNAL_H

#include "wire/requests.h"

struct bt_stream {
    const uint8_t *bytes;
    uint32_t n;
};

// The line from f->at on: WHOLE, and *end is behind its CR LF.
enum bt_framed bt_framer_line(const struct bt_framer *f, const struct bt_stream *s, uint32_t *end);
// Digits and nothing else.
bool bt_framer_number(const uint8_t *text, uint32_t n, uint32_t *value);
// `more` bytes from f->at on, of which the last two are CR LF: WHOLE, and f->at is behind them.
enum bt_framed bt_framer_block(struct bt_framer *f, const struct bt_stream *s, uint32_t more);

enum bt_framed bt_framer_http(struct bt_framer *f, const struct bt_stream *s);

#endif
