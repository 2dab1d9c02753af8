// SPDX-License-Identifier: Apache-2.0
// From a scenario file to plain numbers: defaults, sections by table, and what one key says about another.
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recording.h"
#include "times.h"
#include "router/router_config.h"
#include "scenario_fields.h"
#include "yaml_reader.h"

#define US 1e3

void sim_scenario_defaults(struct sim_scenario *s)
{
    memset(s, 0, sizeof *s);
    memcpy(s->name, "unnamed", sizeof "unnamed");
    s->seed = 1;
    s->requests = 10000;
    s->warmup = 0.1;
    s->settle_ms = 1000;
    s->series_ms = 1000;
    s->tagged = true;
    s->workers = 16;
    s->threads = 1;
    s->depth = 2;
    s->admission_slo_ns = (uint64_t)10e6;
    s->admission_percentile = 99;
    s->hedging_busy = s->hedging_budget = 100;
    s->hedging_percentile = 95;
    s->half_open_per_second = 100;
    s->service = (struct sim_dist){SIM_DIST_EXPONENTIAL, 1e6, 1, 2, 4};
    s->server_max_message = 1 << 16;
    s->routers = 1;
    s->router_threads = 1;
    s->central_limit = 65536;
    s->max_queue_ns = (uint64_t)600e9;
    s->request_timeout_ns = (uint64_t)600e9;
    s->clients = 4;
    s->load = 0.5;
    s->mmpp = (struct sim_mmpp){0.4, 1.2, (uint64_t)100e6, (uint64_t)10e6};
    s->timeout_ns = (uint64_t)600e9;
    s->request_bytes = s->reply_bytes = 16;
    s->long_bytes = 4096;
    s->racks = 1;
    s->grid.seeds = 1;
}

struct sim_template {
    char *path;
    yaml_document_t *doc;
    struct sim_recording recording;
    struct sim_times times; /* of a recording with counts */
};

/* Walks "clients.mmpp" down from the root; NULL when the file has no such section. */
static yaml_node_t *section_node(struct sim_yaml *y, yaml_node_t *root, const char *path)
{
    char word[32];
    yaml_node_t *at = root;
    while (*path != '\0' && at != NULL) {
        size_t n = strcspn(path, ".");
        snprintf(word, sizeof word, "%.*s", (int)n, path);
        at = sim_yaml_get(y, at, word);
        path += n + (path[n] == '.');
    }
    return at;
}

/* Names of the sections directly below `path`, NULL-terminated. */
static void sections_below(const char *path, const char *out[16])
{
    size_t n = 0, deep = strlen(path);
    for (size_t i = 0; i < sim_sections_n; i++) {
        const char *p = sim_sections[i].path;
        if (strncmp(p, path, deep) != 0 || strlen(p) <= deep || (deep > 0 && p[deep] != '.')) {
            continue;
        }
        p += deep + (deep > 0);
        if (strchr(p, '.') == NULL) {
            out[n++] = p;
        }
    }
    out[n] = NULL;
}

static void read_list(struct sim_yaml *y, const struct sim_section *c, yaml_node_t *list, struct sim_scenario *s)
{
    yaml_node_t *item;
    uint32_t *count = (uint32_t *)(void *)((char *)s + c->count_at);
    for (uint32_t i = 0; (item = sim_yaml_item(y, list, i, c->path)) != NULL; i++) {
        char where[48];
        snprintf(where, sizeof where, "%s[%u]", c->path, i);
        if (i == c->max) {
            sim_yaml_complain(y, item, where, "at most %u of them", c->max);
            return;
        }
        char *at = (char *)s + c->items_at + i * c->item_size;
        if (c->begin != NULL) {
            c->begin(at, i, (int)item->start_mark.line + 1);
        }
        sim_yaml_fields(y, item, where, &(struct sim_known){c->field, c->fields, NULL}, at);
        if (c->end != NULL) {
            c->end(at);
        }
        *count = i + 1;
    }
}

static void read_sections(struct sim_yaml *y, yaml_node_t *root, struct sim_scenario *s)
{
    if (root->type != YAML_MAPPING_NODE) {
        sim_yaml_complain(y, root, "", "a scenario is a mapping");
        return;
    }
    s->service.mean_ns /= US; /* the one double that is a time */
    for (size_t i = 0; i < sim_sections_n; i++) {
        const struct sim_section *c = &sim_sections[i];
        const char *below[16];
        yaml_node_t *node = section_node(y, root, c->path);
        sections_below(c->path, below);
        if (c->max > 0) {
            read_list(y, c, node, s);
        } else {
            sim_yaml_fields(y, node, c->path, &(struct sim_known){c->field, c->fields, below}, s);
        }
    }
    s->service.mean_ns *= US;
}

static void check_workers(struct sim_yaml *y, yaml_node_t *root, const struct sim_scenario *s)
{
    if (s->legacy_workers > 0 && s->forwarding != BT_FORWARD_TRANSPARENT) {
        sim_yaml_complain(y, root, "workers.legacy",
                          "legacy peers skip no options; set routers.forwarding: Transparent");
    }
    if (s->legacy_workers > s->workers) {
        sim_yaml_complain(y, root, "workers.legacy", "must be at most workers.count (%u)", s->workers);
    }
    if (s->hold_back_packets > 0 && s->policy != BT_ROUTER_JBSQ) {
        sim_yaml_complain(y, root, "routers.holdBackPackets", "only policy JBSQ holds back");
    }
    if ((s->hold_back_packets > 0) != (s->hold_back_ns > 0)) {
        sim_yaml_complain(y, root, "routers.holdBackPackets",
                          "packets and microseconds must both be 0 or both positive");
    }
}

/* A parameter of a distribution that is not asked for. */
static void check_shape(struct sim_yaml *y, yaml_node_t *root, const struct sim_scenario *s)
{
    yaml_node_t *workers = sim_yaml_get(y, root, "workers");
    yaml_node_t *stages = workers != NULL ? sim_yaml_get(y, workers, "stages") : NULL;
    yaml_node_t *c2 = workers != NULL ? sim_yaml_get(y, workers, "squaredVariation") : NULL;
    if (stages != NULL && s->service.kind != SIM_DIST_ERLANG) {
        sim_yaml_complain(y, stages, "workers.stages", "is not used; set workers.distribution: erlang");
    }
    if (c2 != NULL && s->service.kind != SIM_DIST_HYPEREXPONENTIAL) {
        sim_yaml_complain(y, c2, "workers.squaredVariation", "is not used; set workers.distribution: hyperexponential");
    }
}

static void check_hedging(struct sim_yaml *y, yaml_node_t *root, const struct sim_scenario *s)
{
    if (s->hedging_mode != 0 && s->policy != BT_ROUTER_JBSQ) {
        sim_yaml_complain(y, root, "hedging.mode", "needs routers.policy: JBSQ");
    }
    if (s->hedging_mode != 0 && s->router_threads > 1) {
        sim_yaml_complain(y, root, "hedging.mode", "needs routers on one thread; set routers.threads: 1");
    }
    if (s->admission_mode == BT_ADMISSION_DEGRADE && s->legacy_workers > 0) {
        sim_yaml_complain(y, root, "admission.mode", "Degrade needs workers that read options; set workers.legacy: 0");
    }
}

/* A key that would not be listened to is an error, not a surprise. */
static void only_with(struct sim_yaml *y, yaml_node_t *root, const char *section, const char *key, bool allowed,
                      const char *why)
{
    char path[64];
    yaml_node_t *n = sim_yaml_get(y, section_node(y, root, section), key);
    snprintf(path, sizeof path, "%s.%s", section, key);
    if (n != NULL && !allowed) {
        sim_yaml_complain(y, n, path, "%s", why);
    }
}

static void check_threads(struct sim_yaml *y, yaml_node_t *root, const struct sim_scenario *s)
{
    static const char *const keys[] = {"microseconds", "between", "notes", "credits"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        only_with(y, root, "routers.twoThreads", keys[i], s->router_threads == 2, "needs routers.threads: 2");
    }
}

static void check_arrivals(struct sim_yaml *y, yaml_node_t *root, const struct sim_scenario *s)
{
    bool trace = s->arrivals == SIM_ARRIVE_TRACE, mmpp = s->arrivals == SIM_ARRIVE_MMPP;
    only_with(y, root, "clients", "mmpp", mmpp, "needs arrivals: mmpp");
    only_with(y, root, "clients", "phases", !mmpp && !trace, "needs arrivals: poisson or fixed");
    only_with(y, root, "clients", "load", !mmpp && !trace && s->phases_n == 0,
              "the load is given by mmpp, phases or the trace already");
    only_with(y, root, "clients", "burst", !mmpp && !trace, "needs arrivals: poisson or fixed");
    only_with(y, root, "grid", "load", !mmpp && !trace && s->phases_n == 0,
              "the load is given by mmpp, phases or the trace already");
    only_with(y, root, "workers", "meanMicroseconds", s->service.kind != SIM_DIST_TRACE,
              "the mean is that of the trace already");
    bool wanted = trace || s->service.kind == SIM_DIST_TRACE;
    yaml_node_t *file = sim_yaml_get(y, root, "traceFile");
    if (wanted && file == NULL) {
        sim_yaml_complain(y, root, "traceFile", "is missing; arrivals or distribution are trace");
    }
    if (!wanted && file != NULL) {
        sim_yaml_complain(y, file, "traceFile", "is not used; set clients.arrivals or workers.distribution to trace");
    }
}

/* the load is of what the workers can do at most. */
static double capacity(const struct sim_scenario *s)
{
    return (double)s->workers * s->threads / s->service.mean_ns;
}

static void settle_load(struct sim_scenario *s)
{
    const struct sim_recording *r = s->recording;
    if (s->arrivals == SIM_ARRIVE_MMPP) {
        double quiet = (double)s->mmpp.quiet_ns, burst = (double)s->mmpp.burst_ns;
        s->load = (s->mmpp.quiet_load * quiet + s->mmpp.burst_load * burst) / (quiet + burst);
    } else if (s->arrivals == SIM_ARRIVE_TRACE && r != NULL && r->n > 1 && r->at_ns[r->n - 1] > 0) {
        s->load = (double)(r->n - 1) / (double)r->at_ns[r->n - 1] / capacity(s);
    } else if (s->phases_n > 0) {
        s->load = s->phase[0].load;
    }
}

static void apply_recording(struct sim_yaml *y, yaml_node_t *root, const struct sim_template *t, struct sim_scenario *s)
{
    const struct sim_recording *r = &t->recording;
    yaml_node_t *file = sim_yaml_get(y, root, "traceFile");
    if (r->n == 0) {
        return;
    }
    s->recording = r;
    if (s->arrivals == SIM_ARRIVE_TRACE && r->at_ns == NULL) {
        sim_yaml_complain(y, file, "traceFile", "has no column gapMicroseconds or timeMicroseconds");
    }
    if (s->service.kind == SIM_DIST_TRACE && r->service_ns == NULL) {
        sim_yaml_complain(y, file, "traceFile", "has no column serviceMicroseconds");
    }
    s->times = r->count != NULL ? &t->times : NULL;
    if (r->count == NULL && s->requests > r->n && !s->trace_repeat) {
        sim_yaml_complain(y, sim_yaml_get(y, root, "requests"), "requests",
                          "the trace has %zu rows; ask for that many or set traceRepeat: true", r->n);
    }
    if (s->service.kind == SIM_DIST_TRACE && s->times != NULL) {
        s->service.mean_ns = s->times->mean_ns;
    } else if (s->service.kind == SIM_DIST_TRACE && r->service_ns != NULL) {
        double sum = 0;
        for (size_t i = 0; i < r->n; i++) {
            sum += (double)r->service_ns[i];
        }
        s->service.mean_ns = sum / (double)r->n;
    }
}

int sim_template_draw(const struct sim_template *t, uint64_t seed, struct sim_scenario *out, char *err, size_t err_n)
{
    struct bt_rng draw;
    sim_scenario_defaults(out);
    struct sim_yaml y = {
        .file = t->path, .doc = t->doc, .drawn = out->drawn, .drawn_n = sizeof out->drawn, .err = err, .err_n = err_n};
    yaml_node_t *root = yaml_document_get_root_node(t->doc);
    if (seed == 0) { /* the file's own seed must be known before anything is drawn */
        const struct sim_field own = {"seed", SIM_F_U64, offsetof(struct sim_scenario, seed), 1, 9e15, 0, NULL,
                                      NULL,   false};
        yaml_node_t *n = sim_yaml_get(&y, root, "seed");
        const char *s = n != NULL && n->type == YAML_SCALAR_NODE ? (const char *)n->data.scalar.value : "1";
        seed = strtoull(s, NULL, 10);
        if (seed == 0) {
            sim_yaml_complain(&y, n, own.key, "must be 1..9e15; got %.60s", s);
        }
    }
    sim_stream_seed(&draw, seed, SIM_STREAM_DRAW);
    y.draw = &draw;
    read_sections(&y, root, out);
    check_workers(&y, root, out);
    check_shape(&y, root, out);
    check_hedging(&y, root, out);
    check_threads(&y, root, out);
    check_arrivals(&y, root, out);
    apply_recording(&y, root, t, out);
    settle_load(out);
    out->seed = seed;
    return y.failed ? -1 : 0;
}

/* The trace is read once, and a second draw judges what the scenario asks of it. */
static int load_recording(struct sim_template *t, const struct sim_scenario *s, char *err, size_t err_n)
{
    char path[2 * SIM_PATH + 2];
    const char *slash = strrchr(t->path, '/');
    int folder = slash != NULL && s->trace_file[0] != '/' ? (int)(slash - t->path) + 1 : 0;
    if (folder > SIM_PATH) {
        snprintf(err, err_n, "%s: the path is too long", t->path);
        return -1;
    }
    snprintf(path, sizeof path, "%.*s%s", folder, t->path, s->trace_file);
    if (sim_recording_load(path, &t->recording, err, err_n) != 0) {
        return -1;
    }
    return t->recording.count != NULL ? sim_times_of(path, &t->recording, &t->times, err, err_n) : 0;
}

static struct sim_template *template_of(const char *path, yaml_document_t *doc, bool files, char *err, size_t err_n)
{
    if (doc == NULL) {
        return NULL;
    }
    struct sim_template *t = calloc(1, sizeof *t);
    struct sim_scenario *probe = calloc(1, sizeof *probe);
    if (t == NULL || probe == NULL) {
        abort();
    }
    t->path = strdup(path);
    t->doc = doc;
    bool ok = sim_template_draw(t, 0, probe, err, err_n) == 0;
    if (ok && files && probe->trace_file[0] != '\0') {
        ok = load_recording(t, probe, err, err_n) == 0 && sim_template_draw(t, 0, probe, err, err_n) == 0;
    }
    free(probe);
    if (ok) {
        return t;
    }
    sim_template_free(t);
    return NULL;
}

struct sim_template *sim_template_load(const char *path, char *err, size_t err_n)
{
    return template_of(path, sim_yaml_open(path, err, err_n), true, err, err_n);
}

struct sim_template *sim_template_parse(const char *path, const char *text, size_t n, char *err, size_t err_n)
{
    return template_of(path, sim_yaml_read(path, text, n, err, err_n), false, err, err_n);
}

void sim_template_free(struct sim_template *t)
{
    if (t == NULL) {
        return;
    }
    yaml_document_delete(t->doc);
    sim_recording_free(&t->recording);
    sim_times_free(&t->times);
    free(t->doc);
    free(t->path);
    free(t);
}
