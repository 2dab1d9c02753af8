// SPDX-License-Identifier: Apache-2.0
// What a server's pod is told by its service: how its threads share the requests (spec.scheduling), and how much
// clients may send (spec.flowControl). The mode comes by the environment, since ports depend on it; the rest by
// control.
#include "api/serve_internal.h"
#include "run/told.h"

#include <stdio.h>

static bool refuse(char *err, size_t errlen, const struct bobtail_server_config *c)
{
    if (c->control == NULL || c->control[0] == '\0') {
        snprintf(err, errlen,
                 "scheduling: whoever speaks to control says how many threads run, and control is not given");
    } else {
        snprintf(err, errlen, "scheduling: must be %s or %s; got \"%s\"",
                 bt_scheduling_mode_words[BT_SCHEDULE_RUN_TO_COMPLETION],
                 bt_scheduling_mode_words[BT_SCHEDULE_WORK_STEALING], c->scheduling);
    }
    return false;
}

bool serve_take_scheduling(struct bobtail_server_config *c, char *err, size_t errlen)
{
    enum bt_sched_mode mode;
    if (c->scheduling == NULL || c->scheduling[0] == '\0') {
        c->scheduling = NULL;
        return true;
    }
    if (c->control == NULL || c->control[0] == '\0' || !bt_told_mode(c->scheduling, &mode)) {
        return refuse(err, errlen, c);
    }
    uint32_t ports = c->threads, threads = bt_told_threads(mode, ports);
    if (bt_run_ports(mode, threads) != ports) {
        snprintf(err, errlen, "threads: must be 1..%u with scheduling %s; got %u",
                 bt_run_ports(mode, BT_RUN_THREADS_MAX), c->scheduling, ports);
        return false;
    }
    c->threads = (uint16_t)threads;
    c->mode = mode == BT_SCHED_WORK_STEALING ? BOBTAIL_WORK_STEALING : BOBTAIL_RUN_TO_COMPLETION;
    return true;
}

struct bt_fc_objective serve_own_objective(const struct bobtail_server_config *c)
{
    return (struct bt_fc_objective){.wait_ns = c->wait_us * 1e3,
                                    .percentile = c->wait_percentile,
                                    .model = c->wait_model == BOBTAIL_WAIT_PAPER ? BT_FC_PAPER : BT_FC_REFINED};
}

void serve_set_flow(struct bobtail_server *s, const struct bt_fc_objective *o)
{
    for (uint32_t i = 0; i < s->ports && s->port[i].flow != NULL; i++) {
        struct bt_fc_objective of = *o;
        of.cores = bt_run_cores(s->run, i);
        bt_flow_set(s->port[i].flow, o->wait_ns > 0 ? &of : NULL, bt_io_now(s->port[i].io));
    }
}

void serve_read_flow(struct bobtail_server *s, struct bt_flow_figures *sum)
{
    *sum = (struct bt_flow_figures){0};
    for (uint32_t i = 0; i < s->ports && s->port[i].flow != NULL; i++) {
        struct bt_flow_figures one;
        bt_flow_read(s->port[i].flow, bt_io_now(s->port[i].io), &one);
        bt_flow_add(sum, &one);
    }
}

void serve_told_apply(struct bobtail_server *s, const struct bt_config_service *service)
{
    struct bt_fc_objective o = bt_told_objective(&service->flow);
    serve_set_flow(s, service->flow.given ? &o : &s->own);
    if (s->told) {
        bt_told_apply(s->run, s->mode, &service->scheduling);
    }
}

void serve_told_state(struct bobtail_server *s, struct bt_ctl_state *out)
{
    struct bt_flow_figures f;
    serve_read_flow(s, &f);
    bt_told_flow_state(&f, &out->flow);
    if (s->told) {
        bt_told_state(s->run, s->mode, &out->scheduling);
    }
}

void serve_told_counters(struct bobtail_server *s, struct bt_ctl_samples *out)
{
    struct bt_flow_figures f;
    serve_read_flow(s, &f);
    bt_told_flow_counters(&f, out);
    bt_told_counters(s->run, s->threads, out);
}
