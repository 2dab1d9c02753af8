// SPDX-License-Identifier: Apache-2.0
// What a handler may do with its request.
#include <stdlib.h>
#include <string.h>

#include "run/run_internal.h"

RUN_RARE static const struct bobtail_bytes *several(const struct bobtail_request *request, int *n)
{
    struct bobtail_bytes *piece = request->core->piece;
    int used = 0;
    for (const struct bt_pkt *p = request->msg.head; p != NULL; p = p->next) {
        if (p->len != 0) {
            piece[used++] = (struct bobtail_bytes){p->data + request->home->read_only, p->len};
        }
    }
    *n = used;
    return piece;
}

const struct bobtail_bytes *bobtail_request_bytes(struct bobtail_request *request, int *n)
{
    const struct bt_pkt *p = request->msg.head;
    if (p->next != NULL) {
        return several(request, n);
    }
    request->one = (struct bobtail_bytes){p->data + request->home->read_only, p->len};
    *n = 1;
    return &request->one;
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
    return atomic_load_explicit(&request->stage, memory_order_relaxed) == RUN_UNWANTED;
}

/* Room for a reply of so many bytes; NULL: there is none. */
static uint8_t *room(struct bobtail_request *request, size_t len)
{
    if (request->reply != NULL || len > request->home->max_message) {
        return NULL;
    }
    uint8_t *to = len <= RUN_SMALL ? request->small : (request->heap = malloc(len));
    request->reply = to;
    request->reply_len = (uint32_t)len;
    return to;
}

/* Bytes of the request itself stay where they are until the reply has left. */
static inline bool own_bytes(const struct bobtail_request *request, const void *at, size_t len)
{
    const struct bobtail_bytes *one = &request->one; // as its handler got it
    uintptr_t into = (uintptr_t)at - (uintptr_t)one->at;
    return into <= one->len && len <= one->len - into;
}

__attribute__((noinline)) static int reply_otherwise(struct bobtail_request *request, const struct bobtail_bytes *piece,
                                                     int n)
{
    size_t len = 0;
    if (n == 1 && request->reply == NULL && own_bytes(request, piece->at, piece->len)) {
        request->reply = piece->at;
        request->reply_len = (uint32_t)piece->len;
        return 0;
    }
    for (int i = 0; i < n; i++) {
        if (piece[i].len > request->home->max_message - len) {
            return -1;
        }
        len += piece[i].len;
    }
    uint8_t *to = room(request, len);
    for (int i = 0; to != NULL && i < n; i++) {
        memcpy(to, piece[i].at, piece[i].len);
        to += piece[i].len;
    }
    return to != NULL ? 0 : -1;
}

int bobtail_reply_pieces(struct bobtail_request *request, const struct bobtail_bytes *piece, int n)
{
    if (piece != &request->one || n != 1 || request->reply != NULL) { // else the request itself, all of it
        return reply_otherwise(request, piece, n);
    }
    request->reply = piece->at;
    request->reply_len = (uint32_t)piece->len;
    return 0;
}

int bobtail_reply(struct bobtail_request *request, const void *bytes, size_t len)
{
    return bobtail_reply_pieces(request, &(struct bobtail_bytes){bytes, len}, 1);
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
