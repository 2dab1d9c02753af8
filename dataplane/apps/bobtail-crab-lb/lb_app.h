// SPDX-License-Identifier: Apache-2.0
// What the files of bobtail-crab-lb share. Two threads besides the control socket's: the packet loop, which owns the
// balancer, the prober and the io; and the keeper, which builds pools when servers or the configuration change and has
// the loop put them in place (mailbox), so that no packet waits for a hash table to be filled.
#ifndef BT_APPS_CRAB_LB_APP_H
#define BT_APPS_CRAB_LB_APP_H

#include "ctl/ctl.h"
#include "lb_config.h"
#include "lb_keys.h"
#include "shell/network.h"

#include <pthread.h>
#include <stdatomic.h>

struct bt_dpdk_device;

struct lb_options {
    const char *address, *address6, *gateway6, *config, *ctl, *key_dir;
    uint32_t report_port;
    int log;
    struct bt_network_options network;
    // What the first three say.
    struct bt_addr own[2]; // --address and --address6 with the report port
    unsigned n_own;        // and the local port TCP comes from (link.h)
    uint8_t bits6;         // of --address6's network
    struct bt_addr next6;  // zeroed: no gateway
};

// Of the loop, beside the balancer's and the io's.
enum lb_counter {
    LB_REPORTS,          // taken
    LB_REPORT_MALFORMED, // dropped
    LB_REPORT_STRANGER,  // dropped: of nobody's server
    LB_REPORT_UNSIGNED,  // dropped, as all below: there is a key
    LB_REPORT_TAG,
    LB_REPORT_SESSION,
    LB_REPORT_REPLAY,
    LB_COUNTERS
};

struct lb_app {
    struct lb_options opt;
    uint64_t seed, started_ns;
    struct bt_dpdk_device *dev;
    struct bt_io *io;
    struct bt_pool *pool;

    // The loop's.
    struct bt_crab *crab;
    void *crab_mem;
    struct bt_crab_pool **pools; // by VIP: what the balancer uses
    uint16_t *vip_ports;         // by VIP
    uint32_t n_vips;
    struct bt_crab_prober prober;
    struct bt_txq txq;
    uint64_t probe_look_ns;
    uint64_t counters[LB_COUNTERS];
    struct bt_crab_judge *judge; // NULL: reports need no key

    // The keeper's.
    struct lb_config config;
    pthread_t keeper;
    atomic_bool keeper_stop;
    uint64_t changes; // of the prober that the pools in place know
    uint8_t *health;  // by target, as they know it
    struct bt_crab_secret secrets[BT_CRAB_SECRETS];
    uint64_t keys_look_ns;
    bool keys_failing; // and that is in the log

    struct bt_mailbox mailbox;
    struct bt_ctl *ctl;
};

enum bt_cli_result lb_options_read(int argc, char **argv, struct lb_options *opt);

// main.c's parts.
extern const struct bt_ctl_app lb_ctl_app;
void lb_loop(struct lb_app *app);

// Builds the balancer of app->config with nobody up yet. False: logged.
bool lb_pools_start(struct lb_app *app);
// Starts the thread that follows probes and SIGHUP.
bool lb_keeper_start(struct lb_app *app);
void lb_keeper_stop(struct lb_app *app);
void lb_pools_free(struct lb_app *app);

#endif
