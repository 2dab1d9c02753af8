// SPDX-License-Identifier: Apache-2.0
// The copies of the stack, and who has one.
#include "tcp/stack.h"

#include <stdatomic.h>

#define COPIES(X)  X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define DECLARE(i) extern const struct bt_tcp_stack bt_tcp_copy_##i;
#define NAME(i)    &bt_tcp_copy_##i,
COPIES(DECLARE)
static const struct bt_tcp_stack *const copy[] = {COPIES(NAME)};
_Static_assert(sizeof copy / sizeof copy[0] == BT_TCP_COPIES, "src/tcp/meson.build links as many");

static atomic_bool taken[BT_TCP_COPIES];

const struct bt_counter_desc bt_tcp_counter_desc[BT_TCP_COUNTERS] = {
    [BT_TCP_SEGMENTS_IN] = {"tcp_segments_received_total", NULL, NULL},
    [BT_TCP_SEGMENTS_OUT] = {"tcp_segments_sent_total", NULL, NULL},
    [BT_TCP_RESENT] = {"tcp_segments_resent_total", NULL, NULL},
    [BT_TCP_ACCEPTED] = {"tcp_connections_total", NULL, NULL},
    [BT_TCP_FLOW_CONNS] = {"tcp_flow_connections_total", NULL, NULL},
    [BT_TCP_FLOW_REFUSED] = {"tcp_flow_refused_total", NULL, NULL},
    [BT_TCP_BAD_OPTIONS] = {"tcp_bad_options_total", NULL, NULL},
    [BT_TCP_HALF_OPEN_LOST] = {"tcp_half_open_lost_total", NULL, NULL},
    [BT_TCP_PROBES] = {"tcp_window_probes_total", NULL, NULL},
    [BT_TCP_DROP_SUM] = {"tcp_dropped_total", "reason", "checksum"},
    [BT_TCP_DROP_HEADER] = {"tcp_dropped_total", "reason", "header"},
    [BT_TCP_DROP_WINDOW] = {"tcp_dropped_total", "reason", "out_of_window"},
    [BT_TCP_DROP_OLD] = {"tcp_dropped_total", "reason", "duplicate"},
    [BT_TCP_DROP_UNKNOWN] = {"tcp_dropped_total", "reason", "no_connection"},
    [BT_TCP_DROP_MEMORY] = {"tcp_dropped_total", "reason", "memory"},
    [BT_TCP_DROP_HELD] = {"tcp_dropped_total", "reason", "out_of_order"},
    [BT_TCP_TX_NO_BUFFER] = {"tcp_send_dropped_total", "reason", "no_buffer"},
};

const struct bt_tcp_stack *bt_tcp_stack_take(void)
{
    for (unsigned i = 0; i < BT_TCP_COPIES; i++) {
        bool free = false;
        if (atomic_compare_exchange_strong(&taken[i], &free, true)) {
            return copy[i];
        }
    }
    return NULL;
}

void bt_tcp_stack_give(const struct bt_tcp_stack *stack)
{
    for (unsigned i = 0; i < BT_TCP_COPIES; i++) {
        if (copy[i] == stack) {
            atomic_store(&taken[i], false);
        }
    }
}
