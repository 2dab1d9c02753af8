// SPDX-License-Identifier: Apache-2.0
// A refusal as it goes to the peer: what kind, which field, what to do about it.
#ifndef BT_CTL_ERROR_H
#define BT_CTL_ERROR_H

#include <stdbool.h>

struct bt_json_out;

struct bt_ctl_error {
    const char *code; // one of BT_CTL_*; static storage
    char field[160];  // "members[2].address"; empty when no field is at fault
    char message[320];
};

#define BT_CTL_INVALID_CONFIG      "InvalidConfig"
#define BT_CTL_INVALID_REQUEST     "InvalidRequest"
#define BT_CTL_UNSUPPORTED_VERSION "UnsupportedVersion"
#define BT_CTL_UNKNOWN_OPERATION   "UnknownOperation"
#define BT_CTL_UNKNOWN_HISTOGRAM   "UnknownHistogram"
#define BT_CTL_HASH_MISMATCH       "HashMismatch"
#define BT_CTL_INTERNAL            "Internal"

// Fills in e and returns false, so that a check can end with it. field may be NULL.
bool bt_ctl_refuse(struct bt_ctl_error *e, const char *code, const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// The member "error" of an answer.
void bt_ctl_put_error(struct bt_json_out *o, const struct bt_ctl_error *e);

#endif
