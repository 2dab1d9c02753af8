// SPDX-License-Identifier: Apache-2.0
// The table of features. In this order they are applied and told: hedging first, which knows when a pair is not all
// that there is of its request.
#include "router/feature.h"

const struct router_feature *const router_features[ROUTER_FEATURES] = {&router_hedging_feature,
                                                                       &router_admission_feature};
