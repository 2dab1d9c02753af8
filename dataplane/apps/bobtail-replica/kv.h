// SPDX-License-Identifier: Apache-2.0
// The built-in service: keys and values, in memory, deterministic. A request:
//
//   'G' key            its value
//   'P' key value      put
//   'A' key more       append to what is there, or put
//   'D' key            delete
//   'C' key old value  put, if the value is `old` (with a length of u16 before old); a key that is not there is ''
//   'L' after n        how many keys there are, and the first n (u16) keys behind `after`, in order
//
// op u8, key's length u8, key, the rest. An answer: status u8, then the value ('G', 'C') or what 'L' asks for.
// Status: '+' done, '-' no such key or another value, '!' malformed, 'R' a write that came as a read, 'F' full.
#ifndef BT_APPS_REPLICA_KV_H
#define BT_APPS_REPLICA_KV_H

#include "bobtail/replica.h"

#include <stdbool.h>

#define KV_KEY_MAX   255u
#define KV_VALUE_MAX 16384u
#define KV_BYTES_MAX (12u << 20) // of all keys and values, the same on all members

struct kv;

struct kv *kv_new(void);
void kv_free(struct kv *kv);

// Answers p[0..n) into out, which has KV_REPLY_MAX bytes; returns how many.
#define KV_REPLY_MAX (KV_VALUE_MAX + 16u)
size_t kv_answer(struct kv *kv, const uint8_t *p, size_t n, int read_only, uint8_t *out);

uint64_t kv_hash(const struct kv *kv); // follows from keys and values alone; kept, so that it costs nothing to ask

size_t kv_write(const struct kv *kv, uint8_t *out, size_t room); // SIZE_MAX: more than room
int kv_read(struct kv *kv, const uint8_t *p, size_t n);          // -1: not what kv_write wrote; then kv is unchanged

#endif
