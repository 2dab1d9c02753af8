// SPDX-License-Identifier: Apache-2.0
// The router program: options, one packet loop around src/router, and its answers to the control
// protocol.
#ifndef BT_APPS_ROUTER_APP_H
#define BT_APPS_ROUTER_APP_H

#include "ctl/ctl.h"
#include "fast_path.h"
#include "router/delegation.h"
#include "router/router.h"
#include "shell/cli.h"
#include "shell/network.h"
#include "threads.h"

struct router_options {
    const char *address;
    uint32_t request_port, feedback_port;
    uint32_t mtu; // 0: auto
    const char *ctl, *config, *config_cache, *key_dir;
    const char *alive; // control socket of the router that is asked for; NULL: be one
    struct bt_network_options network;
    int log; // enum bt_log_format
    uint32_t threads;
    int fast_path; // enum fast_path_mode
    uint32_t drain_seconds;
    uint64_t drain_quiet_ns;
};

struct router_app {
    struct router_options opt;
    struct bt_network *network;
    struct bt_ctl_device device; // of the network, as it was opened
    struct bt_pool *pool;
    struct bt_io *io;
    struct bt_router *router;
    struct router_threads two; // two.feedback_io is NULL on one thread
    struct bt_fast *fast;      // NULL: every packet goes through the sockets
    char fast_missing[256];    // why, where it was asked for
    enum bt_lend fast_said;
    uint64_t fast_said_ns, fast_sockets[BT_LEND_REASONS]; // packets the router took itself, by why
    void *router_mem;
    struct bt_txq txq;
    struct bt_mailbox mailbox;
    struct bt_ctl *ctl;
    struct bt_trace_ring traces; // written by the thread that takes FEEDBACK
    uint64_t started_ns;
    uint16_t mtu;                                  // in use
    uint32_t datagram;                             // largest UDP payload of it
    struct bt_addr members[BT_ROUTER_MEMBERS_MAX]; // scratch of apply
};

// Parses the command line. Fills in `local` with the two addresses to bind, request port first.
enum bt_cli_result router_options_read(int argc, char **argv, struct router_options *opt, struct bt_addr local[2]);

// What the control protocol asks of this program.
extern const struct bt_ctl_app router_ctl_app;

// Runs until the router is told to stop and has drained.
void router_loop(struct router_app *app);

#endif
