// SPDX-License-Identifier: Apache-2.0
// The words for the router's enumerations in documents, options and scenarios: one list for each, in the order of its
// enum, NULL at the end. Whoever reads or prints such a word takes it from here.
#ifndef BOBTAIL_ROUTER_WORDS_H
#define BOBTAIL_ROUTER_WORDS_H

extern const char *const bt_router_policy_words[];     /* enum bt_router_policy */
extern const char *const bt_router_forwarding_words[]; /* enum bt_router_forwarding */
extern const char *const bt_device_words[];            /* enum bt_device */
extern const char *const bt_admission_mode_words[];    /* enum bt_admission_mode */
extern const char *const bt_controller_words[];        /* enum bt_admission_controller */
extern const char *const bt_hedging_mode_words[];      /* enum bt_hedging_mode */
extern const char *const bt_cancellation_words[];      /* enum bt_hedging_cancellation */

#endif
