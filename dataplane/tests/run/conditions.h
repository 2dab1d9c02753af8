// SPDX-License-Identifier: Apache-2.0
// What tests of members wait for (bed_until): of the group, or of one of its members.
#ifndef BT_TESTS_RUN_CONDITIONS_H
#define BT_TESTS_RUN_CONDITIONS_H

#include "bed.h"

bool leads(struct bed *bed, uint16_t id);          // somebody
bool takes_requests(struct bed *bed, uint16_t id); // that member, from clients
bool level(struct bed *bed, uint16_t id);          // that member has applied what the leader has committed
bool aggregated(struct bed *bed, uint16_t id);     // the leader's entries go by way of the aggregator
bool by_itself(struct bed *bed, uint16_t id);      // they do not

#endif
