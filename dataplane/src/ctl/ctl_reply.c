// SPDX-License-Identifier: Apache-2.0
// The texts of answers. Field names are the contract with the sidecar (clients/go/r2p2/ctl).
#include "ctl/ctl_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void bt_ctl_reply_begin(struct bt_json_out *o, bool ok)
{
    bt_json_out_open(o, NULL, '{');
    bt_json_out_i64(o, "v", BT_CTL_VERSION);
    bt_json_out_bool(o, "ok", ok);
}

void bt_ctl_reply_error(struct bt_json_out *o, const struct bt_ctl_error *e)
{
    bt_ctl_reply_begin(o, false);
    bt_ctl_put_error(o, e);
    bt_json_out_close(o, '}');
}

static void member(struct bt_json_out *o, const struct bt_ctl_member *m)
{
    char ip[BT_ADDR_TEXT];
    bt_json_out_open(o, NULL, '{');
    bt_json_out_string(o, "address", bt_addr_format_ip(&m->addr, ip));
    bt_json_out_u64(o, "port", m->addr.port);
    bt_json_out_bool(o, "joined", m->joined);
    bt_json_out_bool(o, "eligible", m->eligible);
    bt_json_out_bool(o, "suspect", m->suspect);
    bt_json_out_bool(o, "ejected", m->ejected);
    bt_json_out_u64(o, "n", m->n);
    bt_json_out_i64(o, "outstanding", m->outstanding);
    bt_json_out_u64(o, "sent", m->sent);
    bt_json_out_u64(o, "done", m->done);
    bt_json_out_u64(o, "lost", m->lost);
    bt_json_out_u64(o, "incarnation", m->incarnation);
    bt_json_out_i64(o, "feedbackAgeMilliseconds", m->feedback_age_ms);
    bt_json_out_close(o, '}');
}

static void hedging_part(struct bt_json_out *o, const struct bt_ctl_hedging *h)
{
    if (h->mode == NULL) {
        return;
    }
    bt_json_out_open(o, "hedging", '{');
    bt_json_out_string(o, "mode", h->mode);
    bt_json_out_u64(o, "copies", h->copies);
    bt_json_out_u64(o, "won", h->won);
    bt_json_out_u64(o, "cancelled", h->cancelled);
    bt_json_out_u64(o, "preempted", h->preempted);
    bt_json_out_u64(o, "delayNanoseconds", h->delay_ns);
    bt_json_out_u64(o, "busyMillionths", h->busy_ppm);
    bt_json_out_u64(o, "compared", h->compared);
    bt_json_out_u64(o, "hiccupMillionths", h->hiccup_ppm);
    bt_json_out_u64(o, "hiccupNanoseconds", h->hiccup_ns);
    bt_json_out_u64(o, "serviceNanoseconds", h->service_ns);
    bt_json_out_close(o, '}');
}

static void fast_path_part(struct bt_json_out *o, const struct bt_ctl_fast_path *f)
{
    if (f->reason == NULL) {
        return;
    }
    bt_json_out_open(o, "fastPath", '{');
    bt_json_out_bool(o, "active", f->active);
    bt_json_out_string(o, "reason", f->reason);
    bt_json_out_string(o, "message", f->message);
    bt_json_out_close(o, '}');
}

static void router_part(struct bt_json_out *o, const struct bt_ctl_state *s)
{
    bt_json_out_open(o, "members", '[');
    for (size_t i = 0; i < s->n_members; i++) {
        member(o, &s->members[i]);
    }
    bt_json_out_close(o, ']');
    bt_json_out_open(o, "queue", '{');
    bt_json_out_u64(o, "held", s->held);
    bt_json_out_u64(o, "limit", s->held_limit);
    bt_json_out_close(o, '}');
    hedging_part(o, &s->hedging);
    fast_path_part(o, &s->fast_path);
}

static void flow_part(struct bt_json_out *o, const struct bt_ctl_flow *f)
{
    if (!f->on) {
        return;
    }
    bt_json_out_open(o, "flowControl", '{');
    bt_json_out_bool(o, "throttling", f->throttling);
    bt_json_out_bool(o, "alarm", f->alarm);
    bt_json_out_u64(o, "loadMillionths", f->load_ppm);
    bt_json_out_u64(o, "admittedMillionths", f->admitted_ppm);
    bt_json_out_u64(o, "serviceNanoseconds", f->service_ns);
    bt_json_out_u64(o, "variationThousandths", f->cv2_milli);
    bt_json_out_u64(o, "refused", f->refused);
    bt_json_out_u64(o, "silences", f->silences);
    bt_json_out_u64(o, "clients", f->clients);
    bt_json_out_close(o, '}');
}

static void scheduling_part(struct bt_json_out *o, const struct bt_ctl_scheduling *s)
{
    if (s->mode == NULL) {
        return;
    }
    bt_json_out_open(o, "scheduling", '{');
    bt_json_out_string(o, "mode", s->mode);
    bt_json_out_u64(o, "lanes", s->lanes);
    bt_json_out_u64(o, "activeCores", s->active);
    bt_json_out_u64(o, "minCores", s->least);
    bt_json_out_u64(o, "maxCores", s->most);
    bt_json_out_u64(o, "processors", s->processors);
    bt_json_out_u64(o, "steals", s->stolen);
    bt_json_out_u64(o, "parks", s->parks);
    bt_json_out_u64(o, "slowHandlers", s->slow);
    bt_json_out_u64(o, "longestNanoseconds", s->longest_ns);
    bt_json_out_close(o, '}');
}

static void server_part(struct bt_json_out *o, const struct bt_ctl_state *s)
{
    char text[BT_ADDR_TEXT];
    bt_json_out_open(o, "routers", '[');
    for (size_t i = 0; i < s->n_routers; i++) {
        bt_json_out_open(o, NULL, '{');
        bt_json_out_string(o, "address", bt_addr_format(&s->routers[i].addr, text));
        bt_json_out_i64(o, "heardMillisecondsAgo", s->routers[i].heard_ms_ago);
        bt_json_out_close(o, '}');
    }
    bt_json_out_close(o, ']');
    bt_json_out_u64(o, "backlog", s->backlog);
    bt_json_out_open(o, "workers", '[');
    for (size_t i = 0; i < s->n_workers; i++) {
        bt_json_out_open(o, NULL, '{');
        bt_json_out_u64(o, "port", s->workers[i].port);
        bt_json_out_u64(o, "backlog", s->workers[i].backlog);
        bt_json_out_close(o, '}');
    }
    bt_json_out_close(o, ']');
    flow_part(o, &s->flow);
    scheduling_part(o, &s->scheduling);
}

static void device_part(struct bt_json_out *o, const struct bt_ctl_device *d)
{
    if (d->driver[0] == '\0') {
        return;
    }
    bt_json_out_open(o, "device", '{');
    bt_json_out_string(o, "driver", d->driver);
    bt_json_out_string(o, "pciAddress", d->pci);
    bt_json_out_string(o, "mac", d->mac);
    bt_json_out_string(o, "link", d->link != NULL ? d->link : "");
    bt_json_out_u64(o, "mtu", d->mtu);
    bt_json_out_i64(o, "deviceNode", d->device_node);
    bt_json_out_i64(o, "memoryNode", d->memory_node);
    bt_json_out_i64(o, "cpuNode", d->cpu_node);
    bt_json_out_u64(o, "hugepagesMebibytes", d->hugepages_mib);
    bt_json_out_string(o, "cpus", d->cpus);
    bt_json_out_close(o, '}');
}

void bt_ctl_reply_state(struct bt_json_out *o, const char *hash, const struct bt_ctl_state *s,
                        const struct bt_ctl_app *app)
{
    bt_ctl_reply_begin(o, true);
    bt_json_out_string(o, "hash", hash);
    bt_json_out_bool(o, "draining", s->draining);
    bt_json_out_double(o, "uptimeSeconds", (double)s->uptime_ns / 1e9);
    device_part(o, &s->device);
    if (s->is_router) {
        router_part(o, s);
    } else {
        server_part(o, s);
    }
    if (app != NULL && app->describe != NULL) {
        app->describe(app->arg, o);
    }
    bt_json_out_close(o, '}');
}

static void sample_list(struct bt_json_out *o, const char *key, const struct bt_ctl_sample *s, size_t n)
{
    bt_json_out_open(o, key, '[');
    for (size_t i = 0; i < n; i++) {
        bt_json_out_open(o, NULL, '{');
        bt_json_out_string(o, "name", s[i].desc.name);
        bt_json_out_open(o, "labels", '{');
        if (s[i].desc.label != NULL && s[i].desc.value != NULL) {
            bt_json_out_string(o, s[i].desc.label, s[i].desc.value);
        }
        bt_json_out_close(o, '}');
        bt_json_out_u64(o, "value", s[i].value);
        bt_json_out_close(o, '}');
    }
    bt_json_out_close(o, ']');
}

void bt_ctl_reply_samples(struct bt_json_out *o, const struct bt_ctl_samples *s)
{
    bt_ctl_reply_begin(o, true);
    sample_list(o, "counters", s->counters, s->n_counters);
    sample_list(o, "gauges", s->gauges, s->n_gauges);
    bt_json_out_close(o, '}');
}

void bt_ctl_reply_histogram(struct bt_json_out *o, const char *key, const struct bt_hist *h)
{
    bt_json_out_open(o, key, '{');
    bt_json_out_string(o, "encoding", "ll7");
    bt_json_out_u64(o, "total", h->total);
    bt_json_out_u64(o, "inf", h->inf);
    bt_json_out_u64(o, "sumNanoseconds", h->sum_ns);
    bt_json_out_open(o, "buckets", '[');
    for (uint32_t i = 0; i < BT_HIST_BUCKETS; i++) {
        if (h->bucket[i] != 0) {
            bt_json_out_open(o, NULL, '[');
            bt_json_out_u64(o, NULL, i);
            bt_json_out_u64(o, NULL, h->bucket[i]);
            bt_json_out_close(o, ']');
        }
    }
    bt_json_out_close(o, ']');
    bt_json_out_close(o, '}');
}

static void trace(struct bt_json_out *o, const struct bt_trace *t)
{
    char text[BT_ADDR_TEXT];
    char id[17];
    snprintf(id, sizeof id, "%016" PRIx64, t->id);
    bt_json_out_open(o, NULL, '{');
    bt_json_out_string(o, "id", id);
    bt_json_out_u64(o, "startNanoseconds", t->start_ns);
    bt_json_out_u64(o, "middleNanoseconds", t->middle_ns);
    bt_json_out_u64(o, "endNanoseconds", t->end_ns);
    bt_json_out_string(o, "client", bt_addr_format(&t->client, text));
    bt_json_out_string(o, "worker", bt_addr_format(&t->worker, text));
    bt_json_out_u64(o, "request", t->req_id);
    bt_json_out_bool(o, "routed", t->routed);
    bt_json_out_bool(o, "dropped", t->dropped);
    bt_json_out_close(o, '}');
}

void bt_ctl_reply_traces(struct bt_json_out *o, const struct bt_ctl_traces *t)
{
    bt_ctl_reply_begin(o, true);
    bt_json_out_open(o, "traces", '[');
    for (size_t i = 0; i < t->count; i++) {
        trace(o, &t->trace[i]);
    }
    bt_json_out_close(o, ']');
    bt_json_out_u64(o, "next", t->next);
    bt_json_out_u64(o, "lost", t->lost);
    bt_json_out_u64(o, "nowNanoseconds", t->now_ns);
    bt_json_out_close(o, '}');
}
