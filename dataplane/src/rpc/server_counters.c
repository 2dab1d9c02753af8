// SPDX-License-Identifier: Apache-2.0
// Exported names of the server's counters.
#include "rpc/server.h"

#define REJECTED(m, text) [m] = {"server_rejected_total", "case", text},

const struct bt_counter_desc bt_server_counter_desc[BT_SERVER_COUNTERS] = {
    [BT_M_OK] = {"server_packets_received_total", NULL, NULL},
    BT_MCASE_LIST(REJECTED)[BT_SERVER_REQUESTS] = {"server_requests_total", NULL, NULL},
    [BT_SERVER_REPLIES] = {"server_replies_total", NULL, NULL},
    [BT_SERVER_DROP_ADMIT] = {"server_dropped_total", "reason", "flow_control"},
    [BT_SERVER_DROP_APP] = {"server_dropped_total", "reason", "application"},
    [BT_SERVER_DROP_TABLE] = {"server_dropped_total", "reason", "table_full"},
    [BT_SERVER_DROP_POLICY] = {"server_dropped_total", "reason", "policy_not_implemented"},
    [BT_SERVER_DROP_MALFORMED] = {"server_dropped_total", "reason", "malformed"},
    [BT_SERVER_COLLECTED] = {"server_dropped_total", "reason", "incomplete"},
    [BT_SERVER_DUPLICATE] = {"server_duplicate_packets_total", NULL, NULL},
    [BT_SERVER_FEEDBACK_SENT] = {"server_feedback_sent_total", NULL, NULL},
    [BT_SERVER_REQRDY_SENT] = {"server_reqrdy_sent_total", NULL, NULL},
    [BT_SERVER_SACK_SENT] = {"server_sacks_sent_total", NULL, NULL},
    [BT_SERVER_SACK_RECEIVED] = {"server_sacks_received_total", NULL, NULL},
    [BT_SERVER_RESENT] = {"server_packets_resent_total", NULL, NULL},
    [BT_SERVER_PACKETS_SENT] = {"server_packets_sent_total", NULL, NULL},
    [BT_SERVER_NO_BUFFER] = {"server_no_buffer_total", NULL, NULL},
    [BT_SERVER_CREDITS_EARLY] = {"server_credits_returned_total", "reason", "incomplete"},
    [BT_SERVER_CREDITS_UNWANTED] = {"server_credits_returned_total", "reason", "unwanted"},
    [BT_SERVER_DISPLACED] = {"server_dropped_total", "reason", "displaced"},
    [BT_SERVER_HELD] = {"server_held_packets_total", NULL, NULL},
    [BT_SERVER_CANCELS_REMOVED] = {"server_cancels_total", "outcome", "removed"},
    [BT_SERVER_CANCELS_STOPPED] = {"server_cancels_total", "outcome", "stopped"},
    [BT_SERVER_CANCELS_KEPT] = {"server_cancels_total", "outcome", "kept"},
    [BT_SERVER_FORGOTTEN] = {"server_forgotten_total", NULL, NULL},
    [BT_SERVER_CANCELS_UNMATCHED] = {"server_cancels_total", "outcome", "unmatched"},
    [BT_SERVER_DROP_FLOW] = {"server_dropped_total", "reason", "no_token"},
    [BT_SERVER_FLOW_SIGNALS] = {"server_flow_signals_total", NULL, NULL},
};
