// SPDX-License-Identifier: Apache-2.0
// Keys come from files, never from the configuration document: DIR/<id> holds 32 hexadecimal
// digits (a mounted Secret). The document's keyIds says which must be there.
#ifndef BT_CTL_KEYS_H
#define BT_CTL_KEYS_H

#include "ctl/config.h"
#include "wire/tag.h"

// Reads the keys a document asks for into *out, in its order: the first one signs. False with
// *e naming keyIds[i] and the file. dir may be NULL when the document asks for none.
bool bt_keys_load(const char *dir, const struct bt_config *c, struct bt_keyring *out, struct bt_ctl_error *e);

// The same for a list of key ids, at most BT_KEYS_LIVE.
bool bt_keys_load_ids(const char *dir, const int64_t *ids, size_t n, struct bt_keyring *out, struct bt_ctl_error *e);

#endif
