// SPDX-License-Identifier: Apache-2.0
// What the fields of a configuration document say about one another (config_check.c), for the tables that say what each
// of them may be (config_fields.c).
#ifndef BT_CTL_CONFIG_INTERNAL_H
#define BT_CTL_CONFIG_INTERNAL_H

#include "ctl/config.h"
#include "ctl/shape.h"

extern const struct bt_shape bt_config_shape; // of struct bt_config

// Checks of bt_shape_field; base is a struct bt_config, or what the name says.
void bt_config_check_service(struct bt_shape_reader *r, void *base);
void bt_config_check_classes(struct bt_shape_reader *r, void *admission);
void bt_config_check_members(struct bt_shape_reader *r, void *base);
void bt_config_check_routers(struct bt_shape_reader *r, void *base);
void bt_config_check_key_ids(struct bt_shape_reader *r, void *base);

#endif
