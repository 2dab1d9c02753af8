// SPDX-License-Identifier: Apache-2.0
// The configuration file of bobtail-crab-lb: a JSON document of VIPs and the servers behind them
// (docs/guides/crab-lb.md).
#ifndef BT_APPS_CRAB_LB_CONFIG_H
#define BT_APPS_CRAB_LB_CONFIG_H

#include "ctl/error.h"
#include "tcp/crab.h"
#include "tcp/crab_probe.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LB_MAX_VIP_ADDRS 15u // one of a port's addresses is its own

struct lb_server {
    struct bt_addr ip; // port 0
    uint16_t weight;
};

struct lb_vip {
    struct bt_crab_vip_config crab; // without a cursor
    struct lb_server *servers;
    uint32_t n_servers;
    uint32_t first; // of its servers in the list of all of them, which is the list of probed targets
    uint16_t port;  // as written, and the word of its policy; both are in `crab` too
    unsigned policy;
};

struct lb_config {
    struct bt_crab_encoding encoding;
    struct bt_crab_probe_config probe; // without own addresses and seed
    struct lb_vip *vips;
    uint32_t n_vips, n_servers;
    struct bt_addr addrs[LB_MAX_VIP_ADDRS]; // of the VIPs, each once, ports 0
    uint32_t n_addrs;
    uint64_t probe_interval_ms, probe_timeout_ms; // as written
    bool experiment_given;
};

// Reads a document of `len` bytes. False with the field at fault in *e; *c is then empty.
bool lb_config_parse(const char *text, size_t len, struct lb_config *c, struct bt_ctl_error *e);

// The same of a file.
bool lb_config_read(const char *path, struct lb_config *c, struct bt_ctl_error *e);

// Whether a port with these own addresses can serve its VIPs: one of each family they need, and room for them all.
bool lb_config_fits(const struct lb_config *c, const struct bt_addr *own, unsigned n_own, struct bt_ctl_error *e);

// What a running balancer cannot change: VIPs and how they are served. False: *e says which field differs.
bool lb_config_may_follow(const struct lb_config *old, const struct lb_config *new, struct bt_ctl_error *e);

void lb_config_free(struct lb_config *c);

#endif
