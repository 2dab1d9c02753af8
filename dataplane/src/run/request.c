// SPDX-License-Identifier: Apache-2.0
// What a handler may do with its request.
#include <stdlib.h>
#include <string.h>

#include "run/run_internal.h"

const struct bobtail_bytes *bobtail_request_bytes(struct bobtail_request *request, int *n)
{
    struct bobtail_bytes *piece = request->core->piece;
    ptrdiff_t away = request->home->read_only;
    int used = 0;
    for (const struct bt_pkt *p = request->msg.head; p != NULL; p = p->next) {
        if (p->len != 0) {
            piece[used++] = (struct bobtail_bytes){p->data + away, p->len};
        }
    }
    *n = used;
    return piece;
}

size_t bobtail_request_length(const struct bobtail_request *request)
{
    return request->msg.len;
}

size_t bobtail_request_copy(const struct bobtail_request *request, void *to, size_t n)
{
    return bt_msg_copy(&request->msg, to, n);
}

int bobtail_request_cancelled(const struct bobtail_request *request)
{
    return atomic_load_explicit(&request->cancelled, memory_order_relaxed);
}

/* Room for a reply of so many bytes; NULL: there is none. */
static uint8_t *room(struct bobtail_request *request, size_t len)
{
    if (request->replied || len > request->home->max_message) {
        return NULL;
    }
    uint8_t *to = len <= RUN_SMALL ? request->small : malloc(len);
    if (to != NULL) {
        request->replied = true;
        request->reply = to;
        request->reply_len = (uint32_t)len;
    }
    return to;
}

int bobtail_reply(struct bobtail_request *request, const void *bytes, size_t len)
{
    uint8_t *to = room(request, len);
    if (to == NULL) {
        return -1;
    }
    bt_copy_short(to, bytes, (uint32_t)len);
    return 0;
}

int bobtail_reply_pieces(struct bobtail_request *request, const struct bobtail_bytes *piece, int n)
{
    size_t len = 0;
    for (int i = 0; i < n; i++) {
        if (piece[i].len > request->home->max_message - len) {
            return -1;
        }
        len += piece[i].len;
    }
    uint8_t *to = room(request, len);
    for (int i = 0; to != NULL && i < n; i++) {
        bt_copy_short(to, piece[i].at, (uint32_t)piece[i].len);
        to += piece[i].len;
    }
    return to != NULL ? 0 : -1;
}

uint8_t bt_run_class_flags(const struct bobtail_request *request)
{
    return request->class_flags;
}

uint32_t bt_run_thread_of(const struct bobtail_request *request)
{
    return request->core->number;
}

int bt_run_origin(const struct bobtail_request *request, struct bt_addr *client, uint16_t *id)
{
    *client = request->client;
    *id = request->req_id;
    return (int)request->home->server_local.port;
}
