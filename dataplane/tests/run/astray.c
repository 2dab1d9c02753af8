// SPDX-License-Identifier: Apache-2.0
// A member of the built-in key-value service whose state goes astray once: with its 20th write it puts a key that
// nobody asked for, another one in each process. Clients do not ask for it, so what they see stays right. For
// e2e/replica.
#include "kv_service.h"

#include "base/bytes.h"

#include <unistd.h>

enum { ASTRAY_AT = 20 };

static void on_request(void *kv, r2p2_handle_t handle, struct iovec *iov, int iovcnt)
{
    enum { KEY = 10 };
    static uint8_t ignored[KV_REPLY_MAX];
    static unsigned writes;
    if (!r2p2_replica_read_only(handle) && ++writes == ASTRAY_AT) {
        uint8_t nobody[2 + KEY] = {'P', KEY, 'a', 's', 't', 'r', 'a', 'y'};
        bt_put32(nobody + 2 + KEY - sizeof(uint32_t), (uint32_t)getpid());
        kv_answer(kv, nobody, sizeof nobody, 0, ignored);
    }
    kv_service_recv(kv, handle, iov, iovcnt);
}

int main(int argc, char **argv)
{
    struct kv *kv = kv_new();
    const struct r2p2_replica_service service = {.name = "replica_astray",
                                                 .summary = "A member whose state goes astray once.",
                                                 .recv = on_request,
                                                 .snapshot = kv_service_snapshot,
                                                 .restore = kv_service_restore,
                                                 .state_hash = kv_service_hash,
                                                 .arg = kv};
    int status = r2p2_replica_main(argc, argv, &service);
    kv_free(kv);
    return status;
}
