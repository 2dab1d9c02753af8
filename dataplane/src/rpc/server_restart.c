// SPDX-License-Identifier: Apache-2.0
// A client of the published implementation counts its requests from 1 in each of its lives (R-11 is ours), so after a
// restart on the same port it meets names that are known to be done. It repeats no request: what comes under such
// a name is the network's copy when it is the same, and a request of its next life when it differs.
#include <string.h>

#include "rpc/server_internal.h"

enum { LOOKED_AT = 64 }; // bytes of the first packet; a difference behind them is not seen

// Never 0.
uint32_t bt_server_content(const struct bt_server *s, const struct bt_r2p2_hdr *h)
{
    uint32_t left = h->payload_len < LOOKED_AT ? (uint32_t)h->payload_len : LOOKED_AT;
    uint64_t sum = (uint64_t)h->payload_len << 32 | (uint64_t)h->count_or_index << 16 | h->policy;
    for (const uint8_t *p = h->payload; left > 0;) {
        uint64_t word = 0;
        uint32_t n = left < sizeof word ? left : (uint32_t)sizeof word;
        memcpy(&word, p, n);
        sum = bt_pairs_mix(sum ^ word ^ s->pairs.seed[1], s->pairs.seed[0]);
        p += n;
        left -= n;
    }
    return (uint32_t)(sum ^ sum >> 32) | 1;
}

// BT_PAIRS_NONE: a request of the client's next life, which is to run.
uint32_t bt_server_after_restart(struct bt_server *s, const struct bt_arrival *a, uint32_t known)
{
    if (known == BT_PAIRS_NONE || !(known & BT_PAIR_DONE)) {
        return known;
    }
    const struct bt_done *done = &s->done[known & ~BT_PAIR_DONE];
    if (done->content == 0 || done->content == bt_server_content(s, &a->h)) {
        return known;
    }
    bt_pairs_remove(&s->pairs,
                    bt_pairs_entry(&s->pairs, done->hash, known)); // its place in the ring runs out by itself
    return BT_PAIRS_NONE;
}
