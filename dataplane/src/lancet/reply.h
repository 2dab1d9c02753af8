// SPDX-License-Identifier: Apache-2.0
// Replies of the protocols an agent measures, read as the bytes come in. One reader is one expected
// reply: begun with what the request asked for, fed until it says DONE or BAD. It keeps no copy of
// what it reads, needs no more than its own few hundred bytes and stops at exactly the reply's last
// byte, so that pipelined replies can be told apart and a receive stamp given to the right one (L-53).
#ifndef BT_LANCET_REPLY_H
#define BT_LANCET_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lancet/protocols.h"

enum bt_reply_state { BT_REPLY_MORE, BT_REPLY_DONE, BT_REPLY_BAD };

// What a complete reply says.
enum bt_reply_verdict {
    BT_VERDICT_OK,
    BT_VERDICT_MISS,  // there is no such key: an answer
    BT_VERDICT_ERROR, // the service said no
};

// What the request asked for, as far as the reply's form depends on it.
struct bt_expect {
    uint64_t bytes; // ECHO, STSS: of the payload
    uint64_t first; // ECHO: its first eight bytes as they lie in memory, when it has so many
    uint32_t opaque;
    uint8_t opcode; // MEMCACHED_BINARY: of the request; MEMCACHED_TEXT: 0 get, 1 set
};

#define BT_LINE_KEPT  320u      // bytes of a line that are kept: a VALUE line with a key of 250 and a cas has 299
#define BT_RESP_DEPTH 8u        // arrays within arrays
#define BT_RESP_ITEMS 1048576u  // values in one reply
#define BT_RESP_BULK  536870912 // bytes of one string (the server's own limit)
#define BT_HTTP_LINE  8192u     // bytes of a header line
#define BT_HTTP_LINES 256u      // lines before the body, interim replies included
#define BT_VALUE_MAX  134217728 // bytes of a memcached value or an HTTP chunk

// A line that ends in CR LF.
struct bt_line {
    uint32_t len; // whole length so far; kept are at most BT_LINE_KEPT - 1
    bool cr;
    char text[BT_LINE_KEPT];
};

struct bt_reply {
    uint8_t protocol;
    uint8_t step;    // the protocol's own
    uint8_t verdict; // enum bt_reply_verdict, once DONE
    bool closes;     // the peer ends the connection behind this reply
    const char *bad; // once BAD: what is wrong and what was expected
    struct bt_expect expect;
    uint64_t left;       // bytes still to be passed over
    uint8_t fixed[24];   // a header of fixed size, being collected
    uint32_t fixed_have; // of it
    struct bt_line line;
    union {
        struct {
            uint32_t lines, status, minor;
            bool has_length, chunked, keep_alive;
            uint64_t length;
        } http;
        struct {
            uint32_t depth, items;
            uint32_t open[BT_RESP_DEPTH]; // values still to come of each array
        } resp;
        struct {
            bool found;
        } text;
    } u;
};

void bt_reply_begin(struct bt_reply *r, enum bt_reply_protocol protocol, const struct bt_expect *expect);

// Reads up to n bytes; *used says how many belonged to this reply. MORE: all n did and more are
// wanted. DONE or BAD is final; after BAD the connection has lost its place and must be closed.
enum bt_reply_state bt_reply_feed(struct bt_reply *r, const uint8_t *data, size_t n, size_t *used);

#endif
