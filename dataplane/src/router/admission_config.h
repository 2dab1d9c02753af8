// SPDX-License-Identifier: Apache-2.0
// What admission control is told. Apart from admission.h, as router_config.h is from router.h.
#ifndef BOBTAIL_ROUTER_ADMISSION_CONFIG_H
#define BOBTAIL_ROUTER_ADMISSION_CONFIG_H

#include <stdint.h>

/* 0–3 are the policies of the header, 4–7 priorities asked for by option kind 3. Lower ones are refused first.
 */
#define BT_ADMISSION_CLASSES           8u
#define BT_ADMISSION_DROPPABLE_DEFAULT 0xf9u /* all but 1 and 2: sticky requests and replicated writes */

enum bt_admission_mode {
    BT_ADMISSION_OBSERVE = 0, /* nothing is decided: off */
    BT_ADMISSION_REJECT = 1,  /* DROP */
    BT_ADMISSION_DEGRADE = 2, /* forwarded with a mark */
    BT_ADMISSION_MODES
};

enum bt_admission_controller {
    BT_CONTROL_TRACK = 0, /* ours: docs/decisions, "Admission control" */
    BT_CONTROL_AIAD = 1,  /* as published: 0.01 up or down every 20 ms (Listing 11.1) */
    BT_CONTROLLERS
};

struct bt_admission_config {
    enum bt_admission_mode mode;
    enum bt_admission_controller controller;
    uint64_t slo_ns;   /* objective */
    uint32_t per_100k; /* its percentile × 1,000: 99000 is p99 */
    uint8_t droppable; /* bit per class */
};

#endif
