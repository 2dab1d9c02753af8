// SPDX-License-Identifier: Apache-2.0
// Defaults of a link's configuration, and what is wrong with it.
#ifndef BT_LINK_CONFIG_H
#define BT_LINK_CONFIG_H

#include "link/link.h"

// The configuration with every 0 that means a default replaced.
struct bt_link_config link_defaults(const struct bt_link_config *cfg);

// Of a configuration with defaults in place: true, or false with *err filled in.
bool link_check(const struct bt_link_config *cfg, struct bt_link_error *err);

// True if a configuration has an IPv6 address.
bool link_speaks_v6(const struct bt_link_config *cfg);

#endif
