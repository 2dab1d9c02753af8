// SPDX-License-Identifier: Apache-2.0
// A configuration on its way into force: parse, keys, packet loop, disk. Until the loop has
// accepted it nothing is touched, so the last good one stays whatever goes wrong.
#include "ctl/ctl_internal.h"
#include "ctl/file.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

struct apply_call {
    struct bt_ctl *ctl;
    const struct bt_config *config;
    const struct bt_keyring *keys;
    struct bt_ctl_error *error;
    bool accepted;
};

static void apply_in_loop(void *arg)
{
    struct apply_call *a = arg;
    a->accepted = a->ctl->app.apply(a->ctl->app.arg, a->config, a->keys, a->error);
}

static bool hand_over(struct bt_ctl *c, const struct bt_config *config, const struct bt_keyring *keys, bool direct,
                      struct bt_ctl_error *e)
{
    struct apply_call call = {.ctl = c, .config = config, .keys = keys, .error = e};
    if (direct) {
        apply_in_loop(&call);
    } else if (!bt_mailbox_call(c->mailbox, apply_in_loop, &call)) {
        return bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "the packet loop does not answer; try again");
    }
    return call.accepted;
}

static void remember(struct bt_ctl *c, const char *text, size_t len)
{
    struct bt_ctl_error e;
    c->uncached = c->options.config_cache != NULL && !bt_file_replace(c->options.config_cache, text, len, &e);
    if (c->uncached && c->options.warn != NULL) {
        c->options.warn(e.message); // in force all the same; only a restart would miss it
    }
}

struct text_call {
    struct bt_ctl *ctl;
    const char *text;
    size_t len;
    struct bt_ctl_error *error;
    bool accepted;
};

static void apply_text_in_loop(void *arg)
{
    struct text_call *a = arg;
    const struct bt_ctl *c = a->ctl;
    a->accepted = c->app.apply_text(c->app.arg, a->text, a->len, c->options.key_dir, a->error);
}

// A document of the program's own kind. It is handed over also when its text is the one in force: a key's file may
// hold another key.
static bool apply_own_kind(struct bt_ctl *c, const char *text, size_t len, bool direct, bool *unchanged,
                           struct bt_ctl_error *e)
{
    char hash[BT_CONFIG_HASH];
    struct text_call call = {.ctl = c, .text = text, .len = len, .error = e};
    bt_config_hash(text, len, hash);
    *unchanged = strcmp(hash, c->hash) == 0;
    if (direct) {
        apply_text_in_loop(&call);
    } else if (!bt_mailbox_call(c->mailbox, apply_text_in_loop, &call)) {
        return bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "the packet loop does not answer; try again");
    }
    if (call.accepted) {
        memcpy(c->hash, hash, sizeof hash);
    }
    if (call.accepted && !direct && (!*unchanged || c->uncached)) {
        remember(c, text, len);
    }
    return call.accepted;
}

bool bt_ctl_apply_text(struct bt_ctl *c, const char *text, size_t len, bool direct, bool *unchanged,
                       struct bt_ctl_error *e)
{
    char hash[BT_CONFIG_HASH];
    struct bt_keyring keys;
    if (c->app.apply_text != NULL) {
        return apply_own_kind(c, text, len, direct, unchanged, e);
    }
    if (c->app.apply == NULL) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "op", "a %s takes no configuration", c->app.role);
    }
    struct bt_config *config = bt_config_parse(text, len, e);
    if (config == NULL) {
        return false;
    }
    bt_config_hash(text, len, hash);
    bool ok = bt_keys_load(c->options.key_dir, config, &keys, e);
    *unchanged = ok && strcmp(hash, c->hash) == 0 && memcmp(&keys, &c->keys, sizeof keys) == 0;
    if (ok && !*unchanged) {
        ok = hand_over(c, config, &keys, direct, e);
        if (ok) {
            memcpy(c->hash, hash, sizeof hash);
            c->keys = keys;
        }
    }
    // What was read from disk at start needs no copy there; what could not be written is tried again.
    if (ok && !direct && (!*unchanged || c->uncached)) {
        remember(c, text, len);
    }
    sodium_memzero(&keys, sizeof keys);
    bt_config_free(config);
    return ok;
}

bool bt_ctl_load(struct bt_ctl *c, const char *path, struct bt_ctl_error *e)
{
    size_t len;
    bool unchanged;
    char *text = bt_file_read(path, &len, e);
    if (text == NULL) {
        return false;
    }
    bool ok = bt_ctl_apply_text(c, text, len, true, &unchanged, e);
    free(text);
    return ok;
}
