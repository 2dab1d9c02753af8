// SPDX-License-Identifier: Apache-2.0
// A network device that stamps: what it can, and switching it on and back (L-50).
#ifndef BT_APPS_AGENT_DEVICE_H
#define BT_APPS_AGENT_DEVICE_H

#include "base/addr.h"

#include <linux/ethtool.h>
#include <linux/net_tstamp.h>
#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AGENT_DEVICE_WHY 160u

// A device that was switched to stamping every frame, and how it stood before and after that.
struct agent_device {
    char name[IFNAMSIZ]; // empty: there is none to put back
    struct hwtstamp_config before, after;
};

// The device whose address a socket to the target would get.
bool agent_device_toward(const struct bt_addr *target, char name[IFNAMSIZ]);

// SO_TIMESTAMPING flags the device can do; 0 when it does not say.
uint32_t agent_device_can(const char *name, struct ethtool_ts_info *info);

// Has the device stamp every frame in both directions; false with the reason. What it was switched from is kept in *d.
bool agent_device_switch_on(struct agent_device *d, const char *name, char why[AGENT_DEVICE_WHY]);

// Puts back how the device stood, unless somebody else has switched it since.
void agent_device_put_back(struct agent_device *d);

#endif
