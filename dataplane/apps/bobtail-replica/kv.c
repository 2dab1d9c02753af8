// SPDX-License-Identifier: Apache-2.0
// See kv.h. Items lie in the order of their keys, so that the same state is written down with the same bytes.
#include "kv.h"

#include "base/bytes.h"
#include "wire/group.h"

#include <stdlib.h>
#include <string.h>

enum { ITEM_HEAD = 8, LIST_MOST = 512 };

struct item {
    uint32_t key_n, value_n;
    uint8_t bytes[]; // key, value
};

struct kv {
    struct item **item;
    size_t count, room;
    size_t bytes;  // of all keys and values, with 8 for each
    uint64_t hash; // the sum of the items' hashes: in which order they came does not matter
};

// What cannot be had here could be had by the others, and they would differ: better not to be one of them.
static void *need(void *p)
{
    if (p == NULL) {
        abort();
    }
    return p;
}

struct kv *kv_new(void)
{
    return need(calloc(1, sizeof(struct kv)));
}

static void clear(struct kv *kv)
{
    for (size_t i = 0; i < kv->count; i++) {
        free(kv->item[i]);
    }
    kv->count = kv->bytes = 0;
    kv->hash = 0;
}

void kv_free(struct kv *kv)
{
    clear(kv);
    free(kv->item);
    free(kv);
}

// Where the key ends is part of it.
static uint64_t hash_of(const struct item *i)
{
    uint8_t key[16] = {0};
    bt_put32(key, i->key_n);
    return bt_group_body_hash(key, i->bytes, i->key_n + i->value_n);
}

uint64_t kv_hash(const struct kv *kv)
{
    return kv->hash;
}

struct text {
    const uint8_t *p;
    size_t n;
};

static int compare(const struct item *a, struct text b)
{
    size_t n = a->key_n < b.n ? a->key_n : b.n;
    int c = memcmp(a->bytes, b.p, n);
    return c != 0 ? c : (a->key_n > b.n) - (a->key_n < b.n);
}

// The first item whose key is not below this one.
static size_t place(const struct kv *kv, struct text key)
{
    size_t low = 0, high = kv->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare(kv->item[middle], key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct item *find(const struct kv *kv, struct text key, size_t *at)
{
    *at = place(kv, key);
    return *at < kv->count && compare(kv->item[*at], key) == 0 ? kv->item[*at] : NULL;
}

static struct text value_of(const struct item *i)
{
    return i != NULL ? (struct text){i->bytes + i->key_n, i->value_n} : (struct text){(const uint8_t *)"", 0};
}

static struct item *make(struct text key, struct text head, struct text tail)
{
    struct item *i = need(malloc(sizeof *i + key.n + head.n + tail.n));
    i->key_n = (uint32_t)key.n;
    i->value_n = (uint32_t)(head.n + tail.n);
    memcpy(i->bytes, key.p, key.n);
    memcpy(i->bytes + key.n, head.p, head.n);
    if (tail.n != 0) {
        memcpy(i->bytes + key.n + head.n, tail.p, tail.n);
    }
    return i;
}

// The value of key becomes head and tail. False when that is too much; then nothing changed.
static bool put(struct kv *kv, struct text key, struct text head, struct text tail)
{
    size_t at;
    struct item *old = find(kv, key, &at);
    size_t was = old != NULL ? ITEM_HEAD + old->key_n + old->value_n : 0;
    size_t is = ITEM_HEAD + key.n + head.n + tail.n;
    if (head.n + tail.n > KV_VALUE_MAX || kv->bytes - was + is > KV_BYTES_MAX) {
        return false;
    }
    struct item *fresh = make(key, head, tail);
    if (old == NULL) {
        if (kv->count == kv->room) {
            kv->room = kv->room != 0 ? 2 * kv->room : 64;
            kv->item = need(realloc(kv->item, kv->room * sizeof *kv->item));
        }
        memmove(kv->item + at + 1, kv->item + at, (kv->count - at) * sizeof *kv->item);
        kv->count++;
    }
    kv->hash += hash_of(fresh) - (old != NULL ? hash_of(old) : 0);
    free(old);
    kv->item[at] = fresh;
    kv->bytes += is - was;
    return true;
}

static bool take_out(struct kv *kv, struct text key)
{
    size_t at;
    struct item *old = find(kv, key, &at);
    if (old == NULL) {
        return false;
    }
    kv->bytes -= ITEM_HEAD + old->key_n + old->value_n;
    kv->hash -= hash_of(old);
    free(old);
    memmove(kv->item + at, kv->item + at + 1, (kv->count - at - 1) * sizeof *kv->item);
    kv->count--;
    return true;
}

static size_t answer(uint8_t *out, char status, struct text value)
{
    out[0] = (uint8_t)status;
    memcpy(out + 1, value.p, value.n);
    return 1 + value.n;
}

static const struct text nothing = {(const uint8_t *)"", 0};

static size_t compare_and_put(struct kv *kv, struct text key, struct text rest, uint8_t *out)
{
    size_t at, n = rest.n >= 2 ? bt_get16(rest.p) : 0;
    if (rest.n < 2 || rest.n - 2 < n) {
        return answer(out, '!', nothing);
    }
    struct text old = {rest.p + 2, n}, fresh = {rest.p + 2 + n, rest.n - 2 - n};
    struct text is = value_of(find(kv, key, &at));
    if (is.n != old.n || memcmp(is.p, old.p, old.n) != 0) {
        return answer(out, '-', is);
    }
    return answer(out, put(kv, key, fresh, nothing) ? '+' : 'F', nothing);
}

static size_t list(const struct kv *kv, struct text after, struct text rest, uint8_t *out)
{
    size_t most = rest.n == 2 ? bt_get16(rest.p) : LIST_MOST, n = 5;
    size_t at = place(kv, after);
    out[0] = '+';
    bt_put32(out + 1, (uint32_t)kv->count);
    at += at < kv->count && compare(kv->item[at], after) == 0;
    for (size_t i = 0; at < kv->count && i < most && n + 1 + KV_KEY_MAX < KV_REPLY_MAX; i++, at++) {
        const struct item *it = kv->item[at];
        out[n++] = (uint8_t)it->key_n;
        memcpy(out + n, it->bytes, it->key_n);
        n += it->key_n;
    }
    return n;
}

static size_t change(struct kv *kv, uint8_t op, struct text key, struct text rest, uint8_t *out)
{
    size_t at;
    switch (op) {
    case 'P':
        return answer(out, put(kv, key, rest, nothing) ? '+' : 'F', nothing);
    case 'A': {
        struct text is = value_of(find(kv, key, &at));
        return answer(out, put(kv, key, is, rest) ? '+' : 'F', nothing);
    }
    case 'D':
        return answer(out, take_out(kv, key) ? '+' : '-', nothing);
    case 'C':
        return compare_and_put(kv, key, rest, out);
    default:
        return answer(out, '!', nothing);
    }
}

size_t kv_answer(struct kv *kv, const uint8_t *p, size_t n, int read_only, uint8_t *out)
{
    size_t at;
    if (n < 2 || n - 2 < p[1]) {
        return answer(out, '!', nothing);
    }
    struct text key = {p + 2, p[1]}, rest = {p + 2 + p[1], n - 2 - p[1]};
    if (p[0] == 'G') {
        const struct item *i = find(kv, key, &at);
        return answer(out, i != NULL ? '+' : '-', value_of(i));
    }
    if (p[0] == 'L') {
        return list(kv, key, rest, out);
    }
    return read_only ? answer(out, 'R', nothing) : change(kv, p[0], key, rest, out);
}

/* --- written down: count u64; each: key's length u32, value's length u32, both --- */

size_t kv_write(const struct kv *kv, uint8_t *out, size_t room)
{
    size_t at = 8;
    if (room < 8 + kv->bytes) {
        return SIZE_MAX;
    }
    bt_put64(out, kv->count);
    for (size_t i = 0; i < kv->count; i++) {
        const struct item *it = kv->item[i];
        bt_put32(out + at, it->key_n);
        bt_put32(out + at + 4, it->value_n);
        memcpy(out + at + ITEM_HEAD, it->bytes, it->key_n + it->value_n);
        at += ITEM_HEAD + it->key_n + it->value_n;
    }
    return at;
}

// Puts what p[0..n) says into an empty kv.
static bool read_items(struct kv *kv, const uint8_t *p, size_t n)
{
    size_t at = 8;
    uint64_t count = n >= 8 ? bt_get64(p) : 0;
    for (uint64_t i = 0; i < count; i++) {
        if (n - at < ITEM_HEAD) {
            return false;
        }
        size_t key = bt_get32(p + at), value = bt_get32(p + at + 4);
        if (key > KV_KEY_MAX || value > KV_VALUE_MAX || n - at - ITEM_HEAD < key + value) {
            return false;
        }
        at += ITEM_HEAD;
        if (!put(kv, (struct text){p + at, key}, (struct text){p + at + key, value}, nothing)) {
            return false;
        }
        at += key + value;
    }
    return at == n && kv->count == count;
}

int kv_read(struct kv *kv, const uint8_t *p, size_t n)
{
    struct kv fresh = {.item = NULL};
    if (n != 0 && !read_items(&fresh, p, n)) {
        clear(&fresh);
        free(fresh.item);
        return -1;
    }
    clear(kv);
    free(kv->item);
    *kv = fresh;
    return 0;
}
