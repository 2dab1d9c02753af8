// SPDX-License-Identifier: Apache-2.0
// The table of protocols an agent measures: the name in C, the word of configurations, what reads a reply, what writes
// a request, and whether requests are operations on keys. New ones stand last; R2P2, which has a client of its own and
// carries the body of ECHO, stands behind them all.
#ifndef BT_LANCET_PROTOCOLS_H
#define BT_LANCET_PROTOCOLS_H

#include <stdbool.h>

#define BT_LANCET_PROTOCOL_TABLE(ROW)                                                                                  \
    /* as many bytes as the request had, the same first eight */                                                       \
    ROW(ECHO, "echo", bt_reply_plain, bt_request_echo, false)                                                          \
    /* one i64 */                                                                                                      \
    ROW(SYNTHETIC, "synthetic", bt_reply_plain, bt_request_synthetic, false)                                           \
    /* one i64, little endian: how many bytes follow */                                                                \
    ROW(STSS, "stss", bt_reply_plain, bt_request_stss, false)                                                          \
    ROW(HTTP, "http", bt_reply_http, bt_request_http, false)                                                           \
    ROW(MEMCACHED_TEXT, "memcached-ascii", bt_reply_memcached_text, bt_request_memcached_text, true)                   \
    ROW(MEMCACHED_BINARY, "memcached-binary", bt_reply_memcached_binary, bt_request_memcached_binary, true)            \
    ROW(REDIS, "redis", bt_reply_redis, bt_request_redis, true)

#define BT_LANCET_PROTOCOL_VALUE(name, word, read, write, keys) BT_REPLY_##name,
enum bt_reply_protocol { BT_LANCET_PROTOCOL_TABLE(BT_LANCET_PROTOCOL_VALUE) BT_REPLY_PROTOCOLS };

// In their order, "r2p2" behind them, NULL at the end.
extern const char *const bt_lancet_protocol_words[];

#endif
