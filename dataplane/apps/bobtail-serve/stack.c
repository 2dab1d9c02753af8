// SPDX-License-Identifier: Apache-2.0
// TCP past the kernel: a DPDK port that hands TCP up, an io for each thread.
#include "tcp.h"

#include "io/mtu.h"
#include "run/tcp_stack.h"
#include "scheduled.h"
#include "shell/log.h"

const bool serve_has_stack = true;

bool serve_stack_open(struct serve_app *app, struct bt_run_tcp *tcp)
{
    char why[256];
    struct serve_scheduled *s = app->scheduled;
    struct serve_options *o = &app->opt;
    o->network.takes_tcp = true;
    app->network = bt_network_open(&o->network, &o->first, o->threads, 0);
    if (app->network == NULL || !bt_network_mtu(app->network, o->mtu, &app->mtu)) {
        return false;
    }
    bt_network_describe(app->network, &o->network, &app->device);
    for (uint32_t i = 0; i < o->threads; i++) {
        struct bt_addr any = o->first;
        any.port = 0; // an io has a UDP port; nobody sends there
        s->stack_io[i] = bt_network_io(app->network, i, &(struct bt_network_ports){&any, 1, false}, why, sizeof why);
        if (s->stack_io[i] == NULL) {
            bt_log_error("%s", why);
            return false;
        }
    }
    tcp->wire = &bt_run_wire_stack;
    tcp->io = s->stack_io;
    tcp->pool = bt_network_pool(app->network, 0);
    tcp->mtu = app->mtu;
    s->objective = (struct bt_fc_objective){.wait_ns = (double)o->wait_ns,
                                            .percentile = o->wait_percentile,
                                            .model = (enum bt_fc_model)o->wait_model,
                                            .cores = 1};
    tcp->flow = o->wait_ns != 0 ? &s->objective : NULL;
    return true;
}

void serve_stack_close(struct serve_app *app)
{
    struct serve_scheduled *s = app->scheduled;
    for (uint32_t i = app->opt.threads; i-- > 0;) { // the first polls for the others: it goes last
        if (s->stack_io[i] != NULL) {
            s->stack_io[i]->ops->close(s->stack_io[i]);
        }
    }
    if (app->network != NULL) {
        bt_network_close(app->network);
    }
}

void serve_stack_counters(struct serve_app *app, struct bt_ctl_samples *out)
{
    uint64_t values[BT_TCP_COUNTERS], ios[128];
    const struct bt_counter_desc *desc;
    if (app->network == NULL) {
        return;
    }
    bt_run_read_stacks(app->scheduled->run, values);
    bt_ctl_add_counters(out, bt_tcp_counter_desc, values, BT_TCP_COUNTERS);
    unsigned n = bt_run_read_stack_ios(app->scheduled->run, &desc, ios, 128);
    bt_ctl_add_counters(out, desc, ios, n);
}
