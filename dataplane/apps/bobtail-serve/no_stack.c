// SPDX-License-Identifier: Apache-2.0
// A program without DPDK or without lwIP.
#include "tcp.h"

const bool serve_has_stack = false;

bool serve_stack_open(struct serve_app *app, struct bt_run_tcp *tcp)
{
    (void)app;
    (void)tcp;
    return false; // the options refuse it
}

void serve_stack_close(struct serve_app *app)
{
    (void)app;
}

void serve_stack_counters(struct serve_app *app, struct bt_ctl_samples *out)
{
    (void)app;
    (void)out;
}
