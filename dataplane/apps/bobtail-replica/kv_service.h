// SPDX-License-Identifier: Apache-2.0
// The key-value service (kv.h) as a member calls it: the functions of struct r2p2_replica_service, whose arg is the
// struct kv. They are here once for the program and for the tests' members that do something wrong.
#ifndef BT_APPS_REPLICA_KV_SERVICE_H
#define BT_APPS_REPLICA_KV_SERVICE_H

#include "kv.h"

void kv_service_recv(void *kv, r2p2_handle_t handle, struct iovec *iov, int iovcnt);
size_t kv_service_snapshot(void *kv, uint8_t *out, size_t room);
int kv_service_restore(void *kv, const uint8_t *bytes, size_t n);
uint64_t kv_service_hash(void *kv);

#endif
