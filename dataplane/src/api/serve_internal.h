// SPDX-License-Identifier: Apache-2.0
// Inside of a server of bobtail/serve.h, shared by serve*.c only.
#ifndef BT_API_SERVE_INTERNAL_H
#define BT_API_SERVE_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "bobtail/serve.h"
#include "ctl/ctl.h"
#include "run/memory.h"
#include "run/run.h"

struct serve_control;

struct bobtail_server {
    struct bt_run *run;
    uint32_t ports;
    struct bt_run_memory *memory; // of each port
    struct bt_run_port *port;
    struct bt_run_tcp tcp;
    bool over_tcp;
    pthread_mutex_t holding;       // one thread at a time holds the networks
    struct serve_control *control; // NULL: nobody tells it anything
    uint32_t threads;
    enum bt_sched_mode mode;
    bool told;                  // its cores are the service's to say
    struct bt_fc_objective own; // flow control by its own options; wait_ns 0: none
    bool leaving;               // the routers know
};

// Between the two no other thread touches a port.
void serve_hold(struct bobtail_server *s);
void serve_go(struct bobtail_server *s);
// Tells the routers to send nothing more. Between hold and go.
void serve_leave(struct bobtail_server *s);

// What its pod's service says (serve_told.c). The mode and the threads of a server with spec.scheduling.
bool serve_take_scheduling(struct bobtail_server_config *c, char *err, size_t errlen);
struct bt_fc_objective serve_own_objective(const struct bobtail_server_config *c);
// Flow control of all ports; wait_ns 0: none. Between hold and go, or before the threads start.
void serve_set_flow(struct bobtail_server *s, const struct bt_fc_objective *o);
// All ports together. Between hold and go.
void serve_read_flow(struct bobtail_server *s, struct bt_flow_figures *sum);
void serve_told_apply(struct bobtail_server *s, const struct bt_config_service *service);
void serve_told_state(struct bobtail_server *s, struct bt_ctl_state *out);
void serve_told_counters(struct bobtail_server *s, struct bt_ctl_samples *out);

// The control socket of a server in a pod: who its routers are, and what it says of itself.
// It is made before the ports, which keep what it tells of them; NULL: out of memory.
struct serve_control *serve_control_new(struct bobtail_server *s, uint32_t ports);
void serve_control_port(struct serve_control *c, uint32_t i, struct bt_run_port *port);
// Listens, with what was in force before, if that was kept. False with a sentence in err.
bool serve_control_start(struct serve_control *c, const struct bobtail_server_config *config, char *err, size_t errlen);
// Before the threads end; NULL is fine.
void serve_control_stop(struct serve_control *c);
// After the ports are closed; NULL is fine.
void serve_control_free(struct serve_control *c);

#endif
