// SPDX-License-Identifier: Apache-2.0
// The metadata of an ordered request, see group.h.
#include <sodium/crypto_shorthash.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/group.h"

void bt_group_meta_put(uint8_t *p, const struct bt_group_meta *m)
{
    memcpy(p, m->client.ip, sizeof m->client.ip);
    bt_put16(p + 16, m->client.port);
    bt_put16(p + 18, m->req_id);
    bt_put16(p + 20, m->replier);
    bt_put16(p + 22, 0);
    bt_put32(p + 24, m->length);
    bt_put64(p + 28, m->hash);
}

struct bt_group_meta bt_group_meta_get(const uint8_t *p)
{
    struct bt_group_meta m = {
        .req_id = bt_get16(p + 18), .replier = bt_get16(p + 20), .length = bt_get32(p + 24), .hash = bt_get64(p + 28)};
    memcpy(m.client.ip, p, sizeof m.client.ip);
    bt_addr_set_port(&m.client, bt_get16(p + 16));
    return m;
}

uint64_t bt_group_body_hash(const uint8_t key[16], const uint8_t *body, uint32_t n)
{
    uint8_t out[crypto_shorthash_BYTES];
    crypto_shorthash(out, body, n, key);
    return bt_get64(out);
}
