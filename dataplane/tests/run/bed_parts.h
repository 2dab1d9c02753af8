// SPDX-License-Identifier: Apache-2.0
// What makes a member of a bed: its service, its disk. Tests call none of it.
#ifndef BT_TESTS_RUN_BED_PARTS_H
#define BT_TESTS_RUN_BED_PARTS_H

#include "bed.h"

void bed_service_start(struct bed *b, uint16_t id);
struct bt_disk *bed_disk_open(struct bed *b, uint16_t id, const char *folder);

#endif
