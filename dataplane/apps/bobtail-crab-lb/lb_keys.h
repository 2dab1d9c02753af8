// SPDX-License-Identifier: Apache-2.0
// The keys of signed reports (C-64) in files: DIR/key, and DIR/previous while one key takes the place of another.
#ifndef BT_APPS_CRAB_LB_KEYS_H
#define BT_APPS_CRAB_LB_KEYS_H

#include "ctl/error.h"
#include "tcp/crab_judge.h"

// Reads both; `previous` need not be there. False with what is wrong in *e; secrets are then as they were.
bool lb_keys_read(const char *dir, struct bt_crab_secret secrets[BT_CRAB_SECRETS], struct bt_ctl_error *e);

#endif
