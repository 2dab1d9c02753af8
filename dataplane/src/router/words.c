// SPDX-License-Identifier: Apache-2.0
#include "router/words.h"

#include <stddef.h>

#include "router/router_config.h"

#define WORD(name, word, bounded, least, pick) word,
const char *const bt_router_policy_words[] = {BT_ROUTER_POLICY_TABLE(WORD) NULL};

const char *const bt_router_forwarding_words[BT_ROUTER_FORWARDINGS + 1] = {
    [BT_FORWARD_ENCAPSULATED] = "Encapsulated",
    [BT_FORWARD_TRANSPARENT] = "Transparent",
};
const char *const bt_device_words[BT_DEVICES + 1] = {
    [BT_DEVICE_KERNEL] = "Kernel",
    [BT_DEVICE_AFXDP] = "AFXDP",
    [BT_DEVICE_SRIOV] = "SRIOV",
};
const char *const bt_admission_mode_words[BT_ADMISSION_MODES + 1] = {
    [BT_ADMISSION_OBSERVE] = "Observe",
    [BT_ADMISSION_REJECT] = "Reject",
    [BT_ADMISSION_DEGRADE] = "Degrade",
};
const char *const bt_controller_words[BT_CONTROLLERS + 1] = {
    [BT_CONTROL_TRACK] = "Track",
    [BT_CONTROL_AIAD] = "AIAD",
};
const char *const bt_hedging_mode_words[BT_HEDGING_MODES + 1] = {
    [BT_HEDGING_OFF] = "Off",
    [BT_HEDGING_LOAD_AWARE] = "LoadAware",
    [BT_HEDGING_DELAYED] = "Delayed",
    [BT_HEDGING_PROBE] = "Probe",
};
const char *const bt_cancellation_words[BT_HEDGING_CANCELLATIONS + 1] = {
    [BT_HEDGING_CANCEL_NONE] = "None",
    [BT_HEDGING_CANCEL_ANSWERED] = "Answered",
    [BT_HEDGING_CANCEL_PREEMPTIVE] = "Preemptive",
};
