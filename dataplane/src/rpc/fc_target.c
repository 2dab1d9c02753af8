// SPDX-License-Identifier: Apache-2.0
// See fc_target.h.
#include "rpc/fc_target.h"

#include "wire/fc_signal.h"

#define FORGOTTEN_NS UINT64_C(1000000000) // a server unheard for so long is not there any more
#define SWEEP_NS     UINT64_C(100000000)

void bt_fc_target_init(struct bt_fc_target *t, const struct bt_addr *to)
{
    *t = (struct bt_fc_target){.to = *to, .voices = 1};
    t->voice[0].from = *to;
    bt_fc_sender_init(&t->voice[0].sender);
}

uint32_t bt_fc_target_take(struct bt_fc_target *t, uint64_t now, uint64_t *retry_after_ns)
{
    uint64_t shortest = UINT64_MAX;
    t->used_ns = now;
    if (now < t->held_until) {
        *retry_after_ns = t->held_until - now;
        return BT_FC_NOBODY;
    }
    for (uint32_t i = 0; i < t->voices; i++) {
        uint32_t at = (t->turn + i) % t->voices;
        uint64_t wait;
        if (t->voice[at].from.port == 0) {
            continue;
        }
        if (bt_fc_try_take(&t->voice[at].sender, now, &wait)) {
            t->turn = at + 1;
            t->unanswered++;
            *retry_after_ns = 0;
            return at;
        }
        shortest = wait < shortest ? wait : shortest;
    }
    *retry_after_ns = shortest;
    return BT_FC_NOBODY;
}

void bt_fc_target_ended(struct bt_fc_target *t, uint32_t voice)
{
    t->unanswered -= t->unanswered > 0;
    bt_fc_ended(&t->voice[voice].sender);
}

static bool is_router(const struct bt_fc_target *t)
{
    return t->voices > 1 || !bt_addr_eq(&t->voice[0].from, &t->to);
}

// Those behind a router come and go; what they said last is no news.
static void sweep(struct bt_fc_target *t, uint64_t now)
{
    if (now - t->swept_ns < SWEEP_NS) {
        return;
    }
    t->swept_ns = now;
    for (uint32_t i = 0; i < t->voices; i++) {
        struct bt_fc_voice *v = &t->voice[i];
        if (v->heard_ns + FORGOTTEN_NS < now && (v->heard_ns != 0 || v->sender.unanswered == 0)) {
            v->from.port = 0;
        }
    }
}

// A place for a new one: one that is empty, else the one unheard for longest.
static struct bt_fc_voice *place(struct bt_fc_target *t)
{
    struct bt_fc_voice *best = NULL;
    for (uint32_t i = 0; i < t->voices; i++) {
        struct bt_fc_voice *v = &t->voice[i];
        if (v->from.port == 0) {
            return v;
        }
        best = best == NULL || v->heard_ns < best->heard_ns ? v : best;
    }
    return t->voices < BT_FC_VOICES ? &t->voice[t->voices++] : best;
}

static struct bt_fc_voice *voice_of(struct bt_fc_target *t, uint64_t now, const struct bt_addr *from)
{
    struct bt_fc_voice *first = &t->voice[0], *v = NULL;
    for (uint32_t i = 0; i < t->voices && v == NULL; i++) {
        v = bt_addr_eq(&t->voice[i].from, from) ? &t->voice[i] : NULL;
    }
    if (v == NULL && t->voices == 1 && first->heard_ns == 0) {
        v = first; // whoever answers first is whom the first request was charged to
        v->from = *from;
    }
    if (v == NULL) {
        v = place(t);
        v->from = *from;
        bt_fc_sender_init(&v->sender);
    }
    v->heard_ns = now != 0 ? now : 1;
    sweep(t, now);
    return v;
}

void bt_fc_target_signalled(struct bt_fc_target *t, uint64_t now, const struct bt_addr *from, uint16_t bits)
{
    if (!bt_addr_eq(from, &t->to) || !is_router(t)) {
        bt_fc_signalled(&voice_of(t, now, from)->sender, now, bits);
        return;
    }
    struct bt_fc_signal signal = bt_fc_read(bits);
    t->held_until = signal.idle ? now + signal.value * 1000ull : 0;
}

void bt_fc_target_unsignalled(struct bt_fc_target *t, uint64_t now, const struct bt_addr *from)
{
    bt_fc_unsignalled(&voice_of(t, now, from)->sender);
}
