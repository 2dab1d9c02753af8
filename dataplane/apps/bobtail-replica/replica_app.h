// SPDX-License-Identifier: Apache-2.0
// State of a member's program, shared by its files. One thread owns all of it: the packet loop. The control thread
// comes in through the mailbox, and the storage thread only wakes the loop.
#ifndef BT_APPS_REPLICA_APP_H
#define BT_APPS_REPLICA_APP_H

#include "bobtail/replica.h"
#include "ctl/ctl.h"
#include "io/io.h"
#include "run/member.h"
#include "shell/cli.h"
#include "shell/pool.h"

#include <stdatomic.h>

struct replica_options {
    const char *name, *address, *data; // address NULL: the document's
    const char *config, *config_cache, *key_dir, *ctl;
    uint32_t backup_keep;                           // 0: all copies stay
    const char *backup_to, *restore_from, *cluster; // NULL: a member runs
    uint32_t mtu;                                   // 0: auto
    uint32_t drain_seconds;
    int log;
    int protocol; // 0: the document's, else 1 + enum bt_group_protocol
};

struct replica_app {
    struct replica_options opt;
    const struct r2p2_replica_service *service;
    struct bt_addr override; // --address; port 0: none
    struct bt_pool_mapped pool;
    struct bt_txq txq;
    struct bt_io *idle;                // nothing arrives there: what the loop waits at before its first document
    _Atomic(struct bt_io *) io;        // what it waits at
    struct bt_member *member;          // NULL: no document yet
    struct bt_group_document document; // in force, with a member
    struct bt_addr bound_members, bound_clients;
    struct bt_hist_slices *latency;
    struct bt_mailbox mailbox;
    struct bt_ctl *ctl;
    char hash[BT_CONFIG_HASH]; // of the document in force
    uint64_t started_ns;
    uint32_t incarnation;
    bool leaving;
    bool grouped; // it has the port BT_MEMBER_GROUP
};

enum bt_cli_result replica_options_read(int argc, char **argv, const struct r2p2_replica_service *service,
                                        struct replica_options *opt, struct bt_addr *override);

extern const struct bt_ctl_app replica_ctl_app;

// document.c: the first one opens the sockets and makes the member, later ones change it.
bool replica_apply(void *arg, const char *text, size_t len, const char *key_dir, struct bt_ctl_error *e);

// copies.c: --backup-to and --restore-from. The exit status.
int replica_copies(const struct replica_options *o);

// loop.c
void replica_loop(struct replica_app *app);
void replica_leave(struct replica_app *app);

#endif
