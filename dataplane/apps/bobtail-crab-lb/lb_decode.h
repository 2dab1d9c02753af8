// SPDX-License-Identifier: Apache-2.0
#ifndef BT_APPS_CRAB_LB_DECODE_H
#define BT_APPS_CRAB_LB_DECODE_H

#include "lb_config.h"

// The form of a document: names, types, bounds of single values. What it allocated stands in *c also when it fails.
bool lb_decode(const char *text, size_t len, struct lb_config *c, struct bt_ctl_error *e);

#endif
