// SPDX-License-Identifier: Apache-2.0
// State of the flow-control box's program, shared by its files. One thread owns all of it: the packet loop. The control
// thread comes in through the mailbox.
#ifndef BT_APPS_BOX_APP_H
#define BT_APPS_BOX_APP_H

#include "ctl/ctl.h"
#include "io/io.h"
#include "run/box.h"
#include "shell/cli.h"
#include "shell/pool.h"

#include <stdatomic.h>

struct box_options {
    const char *name, *address; // address NULL: the document's
    const char *config, *config_cache, *key_dir, *ctl;
    uint32_t mtu; // 0: auto
    int log;
};

struct box_app {
    struct box_options opt;
    struct bt_addr override; // --address; port 0: none
    struct bt_pool_mapped pool;
    struct bt_txq txq;
    struct bt_io *idle;                // nothing arrives there: what the loop waits at before its first document
    _Atomic(struct bt_io *) io;        // what it waits at
    struct bt_box_front *box;          // NULL: no document yet
    struct bt_group_document document; // in force, with a box
    struct bt_addr bound_clients, bound_feedback;
    struct bt_mailbox mailbox;
    struct bt_ctl *ctl;
    uint64_t started_ns;
    uint32_t incarnation;
    bool leaving;
};

enum bt_cli_result box_options_read(int argc, char **argv, struct box_options *opt, struct bt_addr *override);

// document.c: the first one opens the sockets and makes the box, later ones change it.
bool box_apply(void *arg, const char *text, size_t len, const char *key_dir, struct bt_ctl_error *e);

// control.c
extern const struct bt_ctl_app box_ctl_app;

#endif
