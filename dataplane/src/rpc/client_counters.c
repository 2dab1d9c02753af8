// SPDX-License-Identifier: Apache-2.0
// Exported names of the client's counters.
#include "rpc/client.h"

#define REJECTED(m, text) [m] = {"client_rejected_total", "case", text},

const struct bt_counter_desc bt_client_counter_desc[BT_CLIENT_COUNTERS] = {
    [BT_M_OK] = {"client_packets_received_total", NULL, NULL},
    BT_MCASE_LIST(REJECTED)[BT_CLIENT_STARTED] = {"client_requests_started_total", NULL, NULL},
    [BT_CLIENT_SUCCEEDED] = {"client_requests_ended_total", "result", "success"},
    [BT_CLIENT_TIMED_OUT] = {"client_requests_ended_total", "result", "timeout"},
    [BT_CLIENT_DROPPED] = {"client_requests_ended_total", "result", "dropped"},
    [BT_CLIENT_INCOMPLETE] = {"client_requests_ended_total", "result", "reply_incomplete"},
    [BT_CLIENT_NO_BUFFER] = {"client_no_buffer_total", NULL, NULL},
    [BT_CLIENT_CANCELLED] = {"client_requests_ended_total", "result", "cancelled"},
    [BT_CLIENT_REFUSED_TABLE] = {"client_refused_total", "reason", "table_full"},
    [BT_CLIENT_REFUSED_ID] = {"client_refused_total", "reason", "no_request_id"},
    [BT_CLIENT_LATE_REPLY] = {"client_late_total", "kind", "late_reply"},
    [BT_CLIENT_HEDGE_LATE] = {"client_late_total", "kind", "hedge_late"},
    [BT_CLIENT_FOREIGN_REPLY] = {"client_late_total", "kind", "foreign_reply"},
    [BT_CLIENT_DUPLICATE] = {"client_duplicate_packets_total", NULL, NULL},
    [BT_CLIENT_SACK_SENT] = {"client_sacks_sent_total", NULL, NULL},
    [BT_CLIENT_SACK_RECEIVED] = {"client_sacks_received_total", NULL, NULL},
    [BT_CLIENT_RESENT] = {"client_packets_resent_total", NULL, NULL},
    [BT_CLIENT_PACKETS_SENT] = {"client_packets_sent_total", NULL, NULL},
    [BT_CLIENT_REFUSED_FLOW] = {"client_refused_total", "reason", "flow_control"},
    [BT_CLIENT_FLOW_SILENCE] = {"client_flow_silences_total", NULL, NULL},
};
