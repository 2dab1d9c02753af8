/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * How long clients of this host waited for a connection: from the first SYN to the
 * SYN-ACK that is believed, by what they dialled. Buckets are those of ll7
 * (dataplane/src/base/histogram.h), so that nodes can be merged.
 */
#ifndef CRAB_CONNECT_H
#define CRAB_CONNECT_H

#include "crab_flow.h"

/* Only filled buckets take room: some hundreds for each VIP that is dialled. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, struct crab_connect_key);
    __type(value, __u64);
    __uint(max_entries, 65536);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(pinning, LIBBPF_PIN_BY_NAME);
} crab_connects SEC(".maps");

/* The place of the highest bit that is set; v is not 0. */
static __always_inline __u32 crab_log2(__u64 v)
{
    __u32 n = 0;

    if (v >> 32) {
        v >>= 32;
        n += 32;
    }
    if (v >> 16) {
        v >>= 16;
        n += 16;
    }
    if (v >> 8) {
        v >>= 8;
        n += 8;
    }
    if (v >> 4) {
        v >>= 4;
        n += 4;
    }
    if (v >> 2) {
        v >>= 2;
        n += 2;
    }
    return n + (v >> 1);
}

/* ll7: below 2^10 ns one bucket, 128 for each power of two, one from 2^37 ns up. */
static __always_inline __u16 crab_bucket(__u64 ns)
{
    if (ns < 1 << 10) {
        return 0;
    }
    __u32 e = crab_log2(ns);
    if (e >= 37) {
        return CRAB_CONNECT_OVERFLOW;
    }
    return 1 + (e - 10) * 128 + ((ns >> (e - 7)) & 127);
}

static __always_inline void crab_connect_add(struct crab_connect_key *key, __u64 n)
{
    __u64 *v = bpf_map_lookup_elem(&crab_connects, key);

    if (!v) {
        __u64 none = 0;
        bpf_map_update_elem(&crab_connects, key, &none, BPF_NOEXIST);
        v = bpf_map_lookup_elem(&crab_connects, key); /* perhaps another CPU made it */
    }
    if (v) {
        __sync_fetch_and_add(v, n);
    } else {
        crab_count(CRAB_CLIENT_CONNECT_FULL);
    }
}

/* The SYN that waits below this name, towards the VIP, is answered. */
CRAB_PART void crab_connected(struct crab_tuple *out)
{
    struct crab_pending *pending = bpf_map_lookup_elem(&crab_pending, out);
    __u64 took;

    if (!pending) {
        return;
    }
    took = bpf_ktime_get_ns() - pending->first_ns;
    crab_drop(&crab_pending, out, CRAB_CLIENT_PENDING_REMOVED);
    struct crab_connect_key key = {.addr = out->server, .port = out->server_port, .bucket = crab_bucket(took)};
    crab_connect_add(&key, 1);
    key.bucket = CRAB_CONNECT_SUM;
    crab_connect_add(&key, took);
}

#endif
