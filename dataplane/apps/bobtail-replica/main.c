// SPDX-License-Identifier: Apache-2.0
// bobtail-replica: a member of a replicated key-value service (kv.h).
#include "kv_service.h"

int main(int argc, char **argv)
{
    struct kv *kv = kv_new();
    const struct r2p2_replica_service service = {
        .name = "bobtail-replica",
        .summary = "A member of a replication group: a key-value service over R2P2 that outlives some of its members.",
        .recv = kv_service_recv,
        .snapshot = kv_service_snapshot,
        .restore = kv_service_restore,
        .state_hash = kv_service_hash,
        .arg = kv,
    };
    int status = r2p2_replica_main(argc, argv, &service);
    kv_free(kv);
    return status;
}
