// SPDX-License-Identifier: Apache-2.0
// The one list of codes that client and server calls return and error
// callbacks carry.
#ifndef BT_RPC_ERROR_H
#define BT_RPC_ERROR_H

// Distinct where the published implementation says -1 for everything.
enum bt_rpc_error {
    BT_RPC_DROPPED = -2,          // refused before execution: always safe to re-issue
    BT_RPC_REPLY_INCOMPLETE = -3, // parts of the reply stayed missing: executed
    BT_RPC_NO_BUFFER = -4,        // packet pool or trains empty: nothing was sent
    BT_RPC_CANCELLED = -5,        // bt_client_close
    BT_RPC_TABLE_FULL = -6,       // max_pending requests are outstanding
    BT_RPC_NO_ID = -7,            // every req_id tried is pending or in quarantine
    BT_RPC_TOO_LARGE = -8,        // larger than max_message
    BT_RPC_BAD_ARGUMENT = -9,     // no destination, timeout 0, policy above 3, unknown handle
    BT_RPC_AGAIN = -11,           // flow control: it would wait for too long; nothing was sent (F-40)
};

#endif
