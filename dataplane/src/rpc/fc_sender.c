// SPDX-License-Identifier: Apache-2.0
// See fc_sender.h.
#include "rpc/fc_sender.h"

#include "wire/fc_signal.h"

#define PERIOD_NS (BT_FC_PERIOD_US * 1000ull)

void bt_fc_sender_init(struct bt_fc_sender *s)
{
    *s = (struct bt_fc_sender){.tokens = 1};
}

// F-42: silence that is over is worth one token.
static void speak(struct bt_fc_sender *s)
{
    s->silent = false;
    s->tokens = s->unanswered + 1;
}

static bool refuse(struct bt_fc_sender *s, uint64_t wait_ns, uint64_t *retry_after_ns)
{
    s->refused++;
    *retry_after_ns = wait_ns;
    return false;
}

bool bt_fc_try_take(struct bt_fc_sender *s, uint64_t now, uint64_t *retry_after_ns)
{
    if (s->silent && now < s->silent_until) {
        return refuse(s, s->silent_until - now, retry_after_ns);
    }
    if (s->silent) {
        speak(s);
    }
    if (s->tokens <= s->unanswered) {
        // An answer will say more, if one is still to come; else the signal was lost with one, and nothing would.
        uint64_t lost_at = s->sent_at + PERIOD_NS;
        if (s->unanswered > 0 || now < lost_at) {
            return refuse(s, s->unanswered > 0 ? PERIOD_NS : lost_at - now, retry_after_ns);
        }
        speak(s);
    }
    s->unanswered++;
    s->sent_at = now;
    *retry_after_ns = 0;
    return true;
}

void bt_fc_ended(struct bt_fc_sender *s)
{
    s->unanswered -= s->unanswered > 0;
}

void bt_fc_signalled(struct bt_fc_sender *s, uint64_t now, uint16_t bits)
{
    struct bt_fc_signal signal = bt_fc_read(bits);
    s->silent = signal.idle;
    if (signal.idle) {
        s->silent_until = now + signal.value * 1000ull; // F-43: on the client's clock
        return;
    }
    s->tokens = signal.value;
}

void bt_fc_unsignalled(struct bt_fc_sender *s)
{
    s->silent = false;
    s->tokens = UINT32_MAX;
}

uint32_t bt_fc_take_any(struct bt_fc_sender *const *senders, uint32_t n, uint32_t first, uint64_t now,
                        uint64_t *retry_after_ns)
{
    uint64_t shortest = UINT64_MAX;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = (first + i) % n;
        uint64_t wait;
        if (bt_fc_try_take(senders[at], now, &wait)) {
            *retry_after_ns = 0;
            return at;
        }
        shortest = wait < shortest ? wait : shortest;
    }
    *retry_after_ns = shortest;
    return n;
}
