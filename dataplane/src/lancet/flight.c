// SPDX-License-Identifier: Apache-2.0
#include "lancet/flight.h"

#include "base/ring.h"

#include <string.h>

static struct bt_flight_slot *at(struct bt_flight *f, uint32_t i)
{
    return &f->slot[i & f->mask];
}

void bt_flight_init(struct bt_flight *f, enum bt_reply_protocol protocol, struct bt_flight_slot *slots,
                    uint32_t outstanding)
{
    memset(f, 0, sizeof *f);
    f->slot = slots;
    f->mask = bt_pow2_at_least(outstanding) - 1;
    f->limit = outstanding;
    f->protocol = (uint8_t)protocol;
}

struct bt_flight_slot *bt_flight_send(struct bt_flight *f, uint32_t bytes)
{
    if (bt_flight_count(f) >= f->limit) {
        return NULL;
    }
    struct bt_flight_slot *s = at(f, f->tail++);
    memset(s, 0, sizeof *s);
    f->bytes += bytes;
    s->end = f->bytes;
    s->tx_stamp_ns = BT_NO_STAMP;
    return s;
}

void bt_flight_tx_stamp(struct bt_flight *f, uint32_t last_byte, uint64_t ns)
{
    bool used = false;
    // Differences of at most 2^31 bytes decide what is older: never so much is on its way.
    while (f->unstamped != f->tail && (int32_t)(last_byte + 1 - at(f, f->unstamped)->end) >= 0) {
        at(f, f->unstamped++)->tx_stamp_ns = ns;
        used = true;
    }
    f->stale_stamps += !used;
}

// The slot at head has its reply.
static void leave(struct bt_flight *f)
{
    f->head++;
    f->reading = false;
    if ((int32_t)(f->unstamped - f->head) < 0) {
        f->unstamped = f->head;
    }
    if ((int32_t)(f->overdue - f->head) < 0) {
        f->overdue = f->head;
    }
}

const char *bt_flight_receive(struct bt_flight *f, const uint8_t *data, size_t n, uint64_t stamp_ns,
                              bt_flight_reply_fn *on_reply, void *arg)
{
    size_t from = 0;
    while (from < n) {
        size_t used;
        if (bt_flight_count(f) == 0) {
            return "bytes that no request asked for";
        }
        struct bt_flight_slot *s = at(f, f->head);
        if (!f->reading) {
            bt_reply_begin(&f->reply, (enum bt_reply_protocol)f->protocol, &s->expect);
            f->reading = true;
        }
        enum bt_reply_state state = bt_reply_feed(&f->reply, data + from, n - from, &used);
        from += used;
        if (state == BT_REPLY_BAD) {
            return f->reply.bad;
        }
        if (state == BT_REPLY_MORE) {
            f->split_stamps += stamp_ns != BT_NO_STAMP;
            break;
        }
        bool last = from == n;
        f->split_stamps += stamp_ns != BT_NO_STAMP && !last;
        on_reply(arg, s, last ? stamp_ns : BT_NO_STAMP, &f->reply);
        leave(f);
        if (f->reply.closes && from < n) {
            return "bytes behind a reply that was to end the connection";
        }
    }
    return NULL;
}

struct bt_flight_slot *bt_flight_oldest(struct bt_flight *f)
{
    return f->overdue != f->tail ? at(f, f->overdue) : NULL;
}

void bt_flight_give_up(struct bt_flight *f)
{
    at(f, f->overdue++)->over = true;
}
