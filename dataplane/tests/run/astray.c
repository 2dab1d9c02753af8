// SPDX-License-Identifier: Apache-2.0
// A member of the built-in key-value service whose state goes astray once: with its 20th write it puts a key that
// nobody asked for. Clients do not ask for that key, so what they see stays right. For e2e/replica.
#include "bobtail/replica.h"
#include "kv.h"

#include <string.h>

enum { ASTRAY_AT = 20 };

static struct kv *kv;
static uint8_t request[65536], answer[KV_REPLY_MAX];
static unsigned writes;

static void on_request(void *arg, r2p2_handle_t handle, struct iovec *iov, int iovcnt)
{
    static const uint8_t nobody[] = {'P', 6, 'a', 's', 't', 'r', 'a', 'y'};
    size_t n = 0;
    int read_only = r2p2_replica_read_only(handle);
    (void)arg;
    for (int i = 0; i < iovcnt && iov[i].iov_len <= sizeof request - n; i++) {
        memcpy(request + n, iov[i].iov_base, iov[i].iov_len);
        n += iov[i].iov_len;
    }
    if (!read_only && ++writes == ASTRAY_AT) {
        kv_answer(kv, nobody, sizeof nobody, 0, answer);
    }
    struct iovec out = {.iov_base = answer};
    out.iov_len = kv_answer(kv, request, n, read_only, answer);
    r2p2_replica_send_response(handle, &out, 1);
}

static size_t on_snapshot(void *arg, uint8_t *out, size_t room)
{
    (void)arg;
    return kv_write(kv, out, room);
}

static int on_restore(void *arg, const uint8_t *bytes, size_t n)
{
    (void)arg;
    return kv_read(kv, bytes, n);
}

static uint64_t on_hash(void *arg)
{
    (void)arg;
    return kv_hash(kv);
}

int main(int argc, char **argv)
{
    static const struct r2p2_replica_service service = {.name = "replica_astray",
                                                        .summary = "A member whose state goes astray once.",
                                                        .recv = on_request,
                                                        .snapshot = on_snapshot,
                                                        .restore = on_restore,
                                                        .state_hash = on_hash};
    kv = kv_new();
    int status = r2p2_replica_main(argc, argv, &service);
    kv_free(kv);
    return status;
}
