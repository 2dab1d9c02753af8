// SPDX-License-Identifier: Apache-2.0
// FEEDBACK as workers send it, and as nobody should (M-1 to M-25), for a switch and a router in software to judge.
#ifndef BOBTAIL_SIM_SWITCH_REPORTS_H
#define BOBTAIL_SIM_SWITCH_REPORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "wire/feedback.h"
#include "wire/r2p2.h"

enum { SIM_REPORT_MOST = BT_R2P2_HEADER + BT_FEEDBACK_V3_SIZE + 8 };

/* What a worker says of itself. */
struct sim_report {
    uint32_t n, life;
    uint64_t received, served;
    bool leaving;
};

/* Into p, SIM_REPORT_MOST bytes. Returns how many it took. */
uint32_t sim_report_write(const struct sim_report *r, uint8_t flags, uint8_t *p);
/* Makes one thing wrong about the n bytes of a FEEDBACK. Returns how many there are then. */
uint32_t sim_report_spoil(struct bt_rng *rng, uint8_t *p, uint32_t n);

#endif
