// SPDX-License-Identifier: Apache-2.0
// Zipf by the method of Gray et al. (Quickly Generating Billion-Record Synthetic Databases, SIGMOD'94,
// §3), the popular keys scattered over the key space by a hash, as YCSB does (SoCC'10, §4).
#include "lancet/keys.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// Sum of 1/i^theta for i = 1…n: the first terms one by one, the rest by Euler and Maclaurin, whose
// error is then below 1e-9.
static double zeta(uint64_t n, double theta)
{
    const uint64_t exact = 10000;
    double sum = 0;
    uint64_t m = n < exact ? n : exact;
    for (uint64_t i = 1; i <= m; i++) {
        sum += pow((double)i, -theta);
    }
    if (n > m) {
        double a = (double)m;
        double b = (double)n;
        sum += (pow(b, 1 - theta) - pow(a, 1 - theta)) / (1 - theta) + (pow(b, -theta) - pow(a, -theta)) / 2;
    }
    return sum;
}

static bool zipf_theta(const char *text, double *theta)
{
    char *end;
    if (strspn(text, ".0123456789") != strlen(text)) {
        return false;
    }
    *theta = strtod(text, &end);
    return end != text && *end == '\0' && *theta > 0 && *theta < 1;
}

const char *bt_keys_init(struct bt_keys *k, uint64_t n, const char *order)
{
    k->n = n;
    if (strcmp(order, "uni") == 0) {
        k->order = BT_KEYS_UNIFORM;
        return NULL;
    }
    if (strcmp(order, "rr") == 0) {
        k->order = BT_KEYS_ROUND_ROBIN;
        return NULL;
    }
    if (strncmp(order, "zipf:", 5) != 0 || !zipf_theta(order + 5, &k->theta)) {
        return "must be uni, rr or zipf:THETA with THETA between 0 and 1, such as zipf:0.99";
    }
    k->order = BT_KEYS_ZIPF;
    k->zeta = zeta(n, k->theta);
    k->alpha = 1 / (1 - k->theta);
    k->eta = (1 - pow(2.0 / (double)n, 1 - k->theta)) / (1 - zeta(2, k->theta) / k->zeta);
    return NULL;
}

static uint64_t zipf_rank(const struct bt_keys *k, struct bt_rng *rng)
{
    double u = bt_rng_unit(rng);
    double uz = u * k->zeta;
    if (uz < 1 || k->n == 1) {
        return 0;
    }
    if (uz < 1 + pow(0.5, k->theta) || k->n == 2) {
        return 1;
    }
    uint64_t rank = (uint64_t)((double)k->n * pow(k->eta * u - k->eta + 1, k->alpha));
    return rank < k->n ? rank : k->n - 1;
}

// splitmix64's finalizer (Steele et al., OOPSLA'14).
static uint64_t scatter(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t bt_keys_draw(const struct bt_keys *k, struct bt_rng *rng, uint64_t *turn)
{
    switch ((enum bt_key_order)k->order) {
    case BT_KEYS_ROUND_ROBIN:
        return (*turn)++ % k->n;
    case BT_KEYS_ZIPF:
        return scatter(zipf_rank(k, rng) + UINT64_C(0x9e3779b97f4a7c15)) % k->n;
    case BT_KEYS_UNIFORM:
        break;
    }
    return bt_rng_next(rng) % k->n;
}

size_t bt_key_write(const struct bt_keys *k, uint64_t key, char out[BT_KEY_MAX])
{
    static const char digits[] = "0123456789abcdef";
    uint64_t turn = key;
    size_t n = 0;
    if (k->bytes.kind == BT_DIST_FIXED) {
        n = (size_t)bt_dist_draw(&k->bytes, NULL, &turn, BT_KEY_MIN, BT_KEY_MAX);
    } else {
        struct bt_rng rng;
        bt_rng_seed(&rng, key);
        n = (size_t)bt_dist_draw(&k->bytes, &rng, &turn, BT_KEY_MIN, BT_KEY_MAX);
    }
    for (unsigned i = 0; i < BT_KEY_MIN; i++) {
        out[i] = digits[(key >> (28 - 4 * i)) & 15];
    }
    memset(out + BT_KEY_MIN, 'k', n - BT_KEY_MIN);
    return n;
}
