// SPDX-License-Identifier: Apache-2.0
// Which key a request is about, and how that key is spelled.
#ifndef BT_LANCET_KEYS_H
#define BT_LANCET_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "lancet/dist.h"

#define BT_KEY_MIN  8u
#define BT_KEY_MAX  250u // memcached's limit
#define BT_KEYS_MAX 100000000u

enum bt_key_order { BT_KEYS_UNIFORM, BT_KEYS_ROUND_ROBIN, BT_KEYS_ZIPF };

struct bt_keys {
    uint64_t n;
    struct bt_dist bytes;
    uint8_t order;
    double theta, zeta, alpha, eta; // of ZIPF
};

// order: "uni", "rr" or "zipf:THETA". NULL, or what is wrong with it (a constant).
const char *bt_keys_init(struct bt_keys *k, uint64_t n, const char *order);

// A key from 0 to n-1; turn counts the draws of ROUND_ROBIN.
uint64_t bt_keys_draw(const struct bt_keys *k, struct bt_rng *rng, uint64_t *turn);

// Writes the name of a key (any below 2^32, also one that is not among the n) and returns its length:
// eight hexadecimal digits, then filler up to a size that depends on the key alone.
size_t bt_key_write(const struct bt_keys *k, uint64_t key, char out[BT_KEY_MAX]);

#endif
