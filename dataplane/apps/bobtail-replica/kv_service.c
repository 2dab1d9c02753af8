// SPDX-License-Identifier: Apache-2.0
#include "kv_service.h"

#include <string.h>

static uint8_t request[65536], answer[KV_REPLY_MAX];

void kv_service_recv(void *kv, r2p2_handle_t handle, struct iovec *iov, int iovcnt)
{
    size_t n = 0;
    for (int i = 0; i < iovcnt && iov[i].iov_len <= sizeof request - n; i++) {
        memcpy(request + n, iov[i].iov_base, iov[i].iov_len);
        n += iov[i].iov_len;
    }
    struct iovec out = {.iov_base = answer};
    out.iov_len = kv_answer(kv, request, n, r2p2_replica_read_only(handle), answer);
    r2p2_replica_send_response(handle, &out, 1);
}

size_t kv_service_snapshot(void *kv, uint8_t *out, size_t room)
{
    return kv_write(kv, out, room);
}

int kv_service_restore(void *kv, const uint8_t *bytes, size_t n)
{
    return kv_read(kv, bytes, n);
}

uint64_t kv_service_hash(void *kv)
{
    return kv_hash(kv);
}
