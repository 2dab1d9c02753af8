// SPDX-License-Identifier: Apache-2.0
// See cluster.h.
#include "run/cluster.h"

#include <sodium/crypto_hash_sha256.h>

#include "base/bytes.h"

uint64_t bt_member_wire_cluster(const uint8_t cluster[16])
{
    uint8_t sum[crypto_hash_sha256_BYTES];
    crypto_hash_sha256(sum, cluster, 16);
    return bt_get64(sum);
}
