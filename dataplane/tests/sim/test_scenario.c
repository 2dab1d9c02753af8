// SPDX-License-Identifier: Apache-2.0
// Scenario files: what they may say, what is said about the wrong ones, and that arrivals, service, links and threads
// do what their keys promise.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "buffers.h"
#include "closed.h"
#include "extras.h"
#include "recording.h"
#include "scenario_fields.h"

static struct sim_template *parsed(const char *text)
{
    char err[1000] = "";
    struct sim_template *t = sim_template_parse("test.yaml", text, strlen(text), err, sizeof err);
    if (t == NULL) {
        fail_msg("refused: %s", err);
    }
    return t;
}

static struct sim_scenario drawn(const char *text, uint64_t seed)
{
    static struct sim_scenario s;
    char err[1000] = "";
    struct sim_template *t = parsed(text);
    if (sim_template_draw(t, seed, &s, err, sizeof err) != 0) {
        fail_msg("refused: %s", err);
    }
    sim_template_free(t);
    return s;
}

static void complains(const char *text, const char *want)
{
    char err[1000] = "";
    struct sim_template *t = sim_template_parse("bad.yaml", text, strlen(text), err, sizeof err);
    if (t != NULL) {
        fail_msg("accepted: %s", text);
    }
    if (strncmp(err, want, strlen(want)) != 0) {
        fail_msg("said \"%s\", want \"%s\"", err, want);
    }
}

static void bad_scenarios_name_line_and_field(void **state)
{
    (void)state;
    complains("workers: {count: 0}\n", "bad.yaml:1:18: workers.count: must be 1..1000; got 0");
    complains("name: x\nworkers:\n  cuont: 3\n",
              "bad.yaml:3:3: workers.cuont: unknown field; known here: count, threads, queueDepth");
    complains("requests: many\n", "bad.yaml:1:11: requests: must be a number; got many");
    complains("requests: 1.5\n", "bad.yaml:1:11: requests: must be a whole number; got 1.5");
    complains("routers: {policy: FIFO}\n", "bad.yaml:1:19: routers.policy: must be one of JBSQ, JSQ");
    complains("clients: {load: [2, 1]}\n", "bad.yaml:1:17: clients.load: low bound 2 is above high bound 1");
    complains("clients: {load: [1, 2, 3]}\n", "bad.yaml:1:17: clients.load: an open number is written [low, high]");
    complains("faults:\n  - {packets: REQ0, kind: loss}\n", "bad.yaml:2:5: faults[0]: probability is missing");
    complains("faults:\n  - {packets: REQ9, kind: loss, probability: 0}\n",
              "bad.yaml:2:15: faults[0].packets: must be one of REQ0");
    complains("faults: 3\n", "bad.yaml:1:9: faults: must be a list");
    complains("seed: 1\nseed: 2\n", "bad.yaml:2:1: seed: given twice");
    complains("workers: {count: 2, legacy: 1}\n", "bad.yaml:1:1: workers.legacy: legacy peers skip no options");
    complains("a: [\n", "bad.yaml:2:");
    complains("", "bad.yaml:1:1: empty file");
}

static void wrong_keys_values_and_contradictions_are_named(void **state)
{
    (void)state;
    complains("- 1\n", "bad.yaml:1:1: a scenario is a mapping");
    complains("clients:\n  arivals: poisson\n",
              "bad.yaml:2:3: clients.arivals: unknown field; known here: count, load");
    complains("clients: {arrivals: bursts}\n",
              "bad.yaml:1:21: clients.arrivals: must be one of poisson, fixed, mmpp, trace, deterministic; got bursts");
    complains("clients: {arrivals: poisson, mmpp: {quietLoad: 1}}\n",
              "bad.yaml:1:36: clients.mmpp: needs arrivals: mmpp");
    complains("clients: {arrivals: mmpp, load: 1}\n", "bad.yaml:1:33: clients.load: the load is given by mmpp");
    complains("clients: {arrivals: mmpp, mmpp: {burstLoad: 0}}\n",
              "bad.yaml:1:45: clients.mmpp.burstLoad: must be 0.001..10");
    complains("clients: {phases: [{forMilliseconds: 3}]}\n", "bad.yaml:1:20: clients.phases[0]: load is missing");
    complains("links:\n  - {from: worker, los: 0.1}\n",
              "bad.yaml:2:20: links[0].los: unknown field; known here: name, from");
    complains("links:\n  - {from: server}\n",
              "bad.yaml:2:12: links[0].from: must be one of client, router, worker, any");
    complains("links: {from: worker}\n", "bad.yaml:1:8: links: must be a list");
    complains("topology: {racks: 0}\n", "bad.yaml:1:19: topology.racks: must be 1..1000; got 0");
    complains("workers: {count: 1001}\n", "bad.yaml:1:18: workers.count: must be 1..1000; got 1001");
    complains("workers: {count: 10us}\n", "bad.yaml:1:18: workers.count: must be a number; got 10us");
    complains("workers: {distribution: trace}\n", "bad.yaml:1:1: traceFile: is missing");
    complains("traceFile: a.csv\n", "bad.yaml:1:12: traceFile: is not used");
    complains("grid: {load: 0.5}\n", "bad.yaml:1:14: grid.load: must be a list");
    complains("grid: {load: []}\n", "bad.yaml:1:14: grid.load: must be a list of one value or more");
    complains("grid: {queueDepth: [1, 2.5]}\n", "bad.yaml:1:24: grid.queueDepth: must be a whole number; got 2.5");
    complains("grid: {policy: [JBSQ, Best]}\n", "bad.yaml:1:23: grid.policy: must be one of JBSQ");
    complains("expect: [{measure: p42, atMost: 1}]\n", "bad.yaml:1:20: expect[0].measure: must be one of mean, p50");
    complains("expect: [{atMost: 1}]\n", "bad.yaml:1:10: expect[0]: measure is missing");
    complains("workers: {distribution: [a, [b]]}\n", "bad.yaml:1:25: workers.distribution: must be");
}

static void other_words_mean_the_same(void **state)
{
    (void)state;
    assert_int_equal(drawn("workers: {distribution: fixed}\n", 1).service.kind, SIM_DIST_DETERMINISTIC);
    assert_int_equal(drawn("workers: {distribution: bimodal-2}\n", 1).service.kind, SIM_DIST_BIMODAL2);
    assert_int_equal(drawn("clients: {arrivals: deterministic}\n", 1).arrivals, SIM_ARRIVE_FIXED);
}

/* Every key of the tables is a key of the reader, in every section: a file that gives each one its lowest value, or
 * its first word, must be read without complaint about an unknown field. */
static void every_key_of_the_schema_is_read(void **state)
{
    (void)state;
    for (size_t i = 1; i < sim_sections_n; i++) {
        const struct sim_section *c = &sim_sections[i];
        const char *dot = strchr(c->path, '.');
        for (size_t k = 0; k < c->fields; k++) {
            char text[256], err[1000] = "";
            int n = dot != NULL ? snprintf(text, sizeof text, "%.*s: {%s: ", (int)(dot - c->path), c->path, dot + 1)
                                : snprintf(text, sizeof text, "%s: ", c->path);
            snprintf(text + n, sizeof text - (size_t)n, "%s{%s: [{}]}%s%s\n", c->max > 0 ? "[" : "", c->field[k].key,
                     c->max > 0 ? "]" : "", dot != NULL ? "}" : "");
            struct sim_template *t = sim_template_parse("k", text, strlen(text), err, sizeof err);
            sim_template_free(t);
            if (t != NULL || strstr(err, "unknown field") != NULL) {
                fail_msg("%s: %s", text, t != NULL ? "accepted a mapping as a value" : err);
            }
        }
    }
}

static void is_generated(const char *path, const char *begin, void (*writer)(FILE *))
{
    char *want = NULL, *have = NULL;
    size_t n = 0, size = 0;
    FILE *m = open_memstream(&want, &n), *f = fopen(path, "rb");
    if (f == NULL) {
        fail_msg("%s is not there; the test runs from the top of the tree", path);
    }
    writer(m);
    fclose(m);
    assert_true(getdelim(&have, &size, '\0', f) > 0);
    fclose(f);
    const char *at = strstr(have, begin);
    if (at == NULL || strncmp(at, want, n) != 0) {
        fail_msg("%s is not what bobtail-sim schema writes; run dataplane/sim/write-schema", path);
    }
    free(want);
    free(have);
}

static void schema_and_reference_are_those_of_the_reader(void **state)
{
    (void)state;
    is_generated("dataplane/sim/scenario.schema.json", "{", sim_schema_json);
    is_generated("docs/reference/scenario.md", "### the file", sim_schema_markdown);
}

static struct sim_scenario quiet(void)
{
    struct sim_scenario s;
    sim_scenario_defaults(&s);
    s.settle_ms = 0;
    s.warmup = 0;
    s.requests = 40000;
    s.tagged = false;
    return s;
}

static struct sim_trace traced(const struct sim_scenario *s, struct sim_result *r)
{
    struct sim_trace t = {calloc(s->requests, sizeof(struct sim_job)), calloc(s->requests, sizeof(uint64_t)), 0};
    assert_non_null(t.job);
    assert_non_null(t.sojourn_ns);
    sim_run(s, r, &t);
    return t;
}

static void release(struct sim_trace *t)
{
    free(t->job);
    free(t->sojourn_ns);
}

/* Variance over mean of the arrivals in windows of a millisecond: 1 for Poisson. */
static double dispersion(const struct sim_trace *t)
{
    uint64_t from = t->job[0].arrival_ns, windows = (t->job[t->n - 1].arrival_ns - from) / 1000000;
    double sum = 0, squares = 0;
    size_t i = 0;
    for (uint64_t w = 0; w < windows; w++) {
        double n = 0;
        for (; i < t->n && t->job[i].arrival_ns < from + (w + 1) * 1000000; i++) {
            n++;
        }
        sum += n;
        squares += n * n;
    }
    double mean = sum / (double)windows;
    return (squares / (double)windows - mean * mean) / mean;
}

static double rate(const struct sim_trace *t)
{
    return (double)(t->n - 1) * 1e9 / (double)(t->job[t->n - 1].arrival_ns - t->job[0].arrival_ns);
}

static void mmpp_keeps_its_rate_and_comes_in_bursts(void **state)
{
    (void)state;
    struct sim_scenario s = quiet();
    struct sim_result r;
    s.service = (struct sim_dist){SIM_DIST_DETERMINISTIC, 1e5, 0};
    s.load = 0.3;
    struct sim_trace poisson = traced(&s, &r);
    assert_true(fabs(dispersion(&poisson) - 1) < 0.15);
    s.arrivals = SIM_ARRIVE_MMPP;
    s.mmpp = (struct sim_mmpp){0.1, 0.9, 3000000, 1000000}; /* 0.3 in the mean: (3 × 0.1 + 0.9) ÷ 4 */
    struct sim_trace bursts = traced(&s, &r);
    assert_true(fabs(rate(&bursts) / rate(&poisson) - 1) < 0.1);
    assert_true(dispersion(&bursts) > 10);
    /* A state that is silent stays silent. */
    s.mmpp.quiet_load = 0;
    s.requests = 5000;
    struct sim_trace silent = traced(&s, &r);
    assert_true(fabs(rate(&silent) / (0.225 * 16e4) - 1) < 0.2);
    release(&poisson);
    release(&bursts);
    release(&silent);
}

static void phases_change_the_load(void **state)
{
    (void)state;
    struct sim_scenario s = quiet();
    struct sim_result r;
    s.service = (struct sim_dist){SIM_DIST_DETERMINISTIC, 1e5, 0};
    s.phases_n = 2;
    s.phase[0] = (struct sim_phase){0.2, 200000000};
    s.phase[1] = (struct sim_phase){0.6, 0};
    struct sim_trace t = traced(&s, &r);
    uint64_t change = t.job[0].arrival_ns + 200000000;
    size_t before = 0;
    while (before < t.n && t.job[before].arrival_ns < change) {
        before++;
    }
    double after = (double)(t.n - before) * 1e9 / (double)(t.job[t.n - 1].arrival_ns - change);
    assert_true(fabs((double)before / 0.2 / (0.2 * 16e4) - 1) < 0.05);
    assert_true(fabs(after / (0.6 * 16e4) - 1) < 0.05);
    release(&t);
}

static struct sim_recording recording(const char *csv)
{
    struct sim_recording r;
    char err[300] = "";
    if (sim_recording_parse("t.csv", csv, strlen(csv), &r, err, sizeof err) != 0) {
        fail_msg("refused: %s", err);
    }
    return r;
}

static void traces_are_replayed_row_by_row_and_again(void **state)
{
    (void)state;
    struct sim_scenario s = quiet();
    struct sim_result r;
    struct sim_recording rec = recording("timeMicroseconds,serviceMicroseconds\n100,7\n130.5,1\n190,0.0001\n");
    s.recording = &rec;
    s.arrivals = SIM_ARRIVE_TRACE;
    s.service = (struct sim_dist){SIM_DIST_TRACE, 5000, 0};
    s.requests = 5;
    struct sim_trace t = traced(&s, &r);
    static const uint64_t gap[] = {30500, 59500, 45000, 30500}, service[] = {7000, 1000, 1, 7000, 1000};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(t.job[i].service_ns, service[i]);
        if (i > 0) {
            assert_int_equal(t.job[i].arrival_ns - t.job[i - 1].arrival_ns, gap[i - 1]);
        }
    }
    release(&t);
    sim_recording_free(&rec);
    rec = recording("gapMicroseconds\n5\n0\n2\n");
    assert_int_equal(rec.n, 3);
    assert_null(rec.service_ns);
    assert_int_equal(rec.at_ns[2], 2000);
    sim_recording_free(&rec);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* K-13: a scenario takes `count` as `policy` does: each service time is drawn as often as it was seen. */
static void k13_counted_traces_mean_the_same_in_a_scenario(void **state)
{
    (void)state;
    char folder[] = "/tmp/bobtail-sim-XXXXXX", yaml[64], csv[64], err[300] = "";
    assert_non_null(mkdtemp(folder));
    snprintf(yaml, sizeof yaml, "%s/s.yaml", folder);
    snprintf(csv, sizeof csv, "%s/t.csv", folder);
    write_file(csv, "serviceMicroseconds,count\n8,90\n80,10\n9,0\n");
    write_file(yaml, "requests: 200000\ntraceFile: t.csv\nworkers: {distribution: trace}\n");
    struct sim_template *template = sim_template_load(yaml, err, sizeof err);
    struct sim_scenario *s = calloc(1, sizeof *s);
    if (template == NULL || s == NULL || sim_template_draw(template, 0, s, err, sizeof err) != 0) {
        fail_msg("refused: %s", err);
    }
    assert_true(fabs(s->service.mean_ns - 15200) < 1e-6);
    struct sim_result r;
    struct sim_trace t = traced(s, &r);
    double sum = 0;
    for (size_t i = 0; i < t.n; i++) {
        assert_true(t.job[i].service_ns == 8000 || t.job[i].service_ns == 80000);
        sum += (double)t.job[i].service_ns;
    }
    assert_true(fabs(sum / (double)t.n / 15200 - 1) < 0.02);
    release(&t);
    sim_template_free(template);
    free(s);
    assert_int_equal(remove(yaml) | remove(csv) | remove(folder), 0);
}

static void bad_traces_are_named_by_line_and_column(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"", "t.csv:1:1: is empty"},
        {"a,b\n1,2\n", "t.csv:1:1: unknown column a; known: gapMicroseconds, timeMicroseconds,"},
        {"serviceMicroseconds,endpoint\n1,2\n", "t.csv:1:2: unknown column endpoint"}, /* K-13 */
        {"count\n1\n", "t.csv:1:1: count says how often a serviceMicroseconds was seen"},
        {"gapMicroseconds,serviceMicroseconds,count\n1,1,1\n", "t.csv:1:1: a row with an arrival is one request"},
        {"gapMicroseconds,timeMicroseconds\n", "t.csv:1:1: gapMicroseconds and timeMicroseconds say the same"},
        {"gapMicroseconds,gapMicroseconds\n", "t.csv:1:2: this column is named twice"},
        {"gapMicroseconds\n", "t.csv:1:1: has no rows"},
        {"gapMicroseconds,serviceMicroseconds\n1,2\n3\n", "t.csv:3:1: this row has not the 2 columns"},
        {"serviceMicroseconds,gapMicroseconds\n1,2,3\n", "t.csv:2:3: this row has not the 2 columns"},
        {"serviceMicroseconds,gapMicroseconds\n1,2\n\n3,-1\n", "t.csv:4:2: must be a number of microseconds"},
        {"gapMicroseconds\nnan\n", "t.csv:2:1: must be a number of microseconds"},
        {"timeMicroseconds\n5\n4\n", "t.csv:3:1: times must rise; 4 comes after 5"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct sim_recording r;
        char err[300] = "";
        assert_int_equal(sim_recording_parse("t.csv", bad[i][0], strlen(bad[i][0]), &r, err, sizeof err), -1);
        if (strncmp(err, bad[i][1], strlen(bad[i][1])) != 0) {
            fail_msg("said \"%s\", want \"%s\"", err, bad[i][1]);
        }
        assert_null(r.at_ns);
    }
}

/* K-14: the same with real packets, by their names. */
static void k14_erlang_and_hyperexponential_in_a_scenario(void **state)
{
    (void)state;
    static const struct {
        const char *distribution;
        double c2;
    } cases[] = {{"erlang, stages: 4", 0.25}, {"hyperexponential, squaredVariation: 3", 3}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[300];
        snprintf(text, sizeof text,
                 "requests: 400000\ntagged: false\nsettleMilliseconds: 0\nclients: {load: 0.6}\n"
                 "workers: {count: 1, distribution: %s}\n",
                 cases[i].distribution);
        struct sim_scenario s = drawn(text, 3);
        struct sim_result r;
        sim_run(&s, &r, NULL);
        double want = 1 + sim_mg1_wait(0.6, cases[i].c2);
        assert_true(fabs(r.mean_ns / s.service.mean_ns / want - 1) < 0.02);
    }
    complains("workers: {stages: 3}\n", "bad.yaml:1:19: workers.stages: is not used");
    complains("workers: {distribution: erlang, squaredVariation: 3}\n",
              "bad.yaml:1:51: workers.squaredVariation: is not used");
    complains("workers: {distribution: hyperexponential, squaredVariation: 0.5}\n",
              "bad.yaml:1:61: workers.squaredVariation: must be 1..1000");
}

/* One server of k threads behind a central queue is M/M/k. */
static void threads_of_one_server_are_a_multi_server_queue(void **state)
{
    (void)state;
    struct sim_scenario s = quiet();
    struct sim_result r;
    s.workers = 1;
    s.threads = 4;
    s.depth = 64;
    s.load = 0.8;
    s.requests = 200000;
    s.warmup = 0.1;
    sim_run(&s, &r, NULL);
    assert_true(fabs(r.mean_ns / 1e6 / (1 + sim_mmn_wait(4, 0.8)) - 1) < 0.04);
    assert_true(fabs(r.little_error) < 0.01);
    assert_true(fabs(r.throughput - 0.8) < 0.02);
}

static void links_lose_delay_and_serialise(void **state)
{
    (void)state;
    struct sim_scenario s = quiet();
    struct sim_result r;
    s.requests = 20000;
    s.timeout_ns = 50000000;
    s.links_n = 1;
    s.link[0] = (struct sim_link){
        .from = SIM_END_WORKER, .to = SIM_END_CLIENT, .from_index = 3, .to_index = -1, .delay_us = -1, .loss = 0.5};
    sim_run(&s, &r, NULL);
    assert_true(r.seen.lost[SIM_PKT_REPLY] > 400 && r.seen.lost[SIM_PKT_REPLY] < 900); /* half of one worker's 1,250 */
    assert_int_equal(r.outcome[SIM_TIMEOUT], r.seen.lost[SIM_PKT_REPLY]);
    assert_int_equal(r.seen.lost[SIM_PKT_FEEDBACK], 0);
    /* 1,000 bytes and 66 more at 1 Gbit/s take 8.528 µs more, plus R2P2's header of 16. */
    s.link[0] = (struct sim_link){
        .from = SIM_END_ANY, .to = SIM_END_CLIENT, .from_index = -1, .to_index = -1, .delay_us = 10, .gigabits = 1};
    s.reply_bytes = 1000;
    s.load = 0.01;
    s.service = (struct sim_dist){SIM_DIST_DETERMINISTIC, 1e5, 0};
    sim_run(&s, &r, NULL);
    assert_true(fabs(r.p50_ns - 1e5 - 10000 - 8 * (1000 + 66 + 16)) < 200);
}

static void racks_add_their_delay(void **state)
{
    (void)state;
    struct sim_scenario s = quiet();
    struct sim_result r;
    s.requests = 2000;
    s.load = 0.01;
    s.clients = 1;
    s.workers = 2; /* client 0, router 0 and worker 0 in rack 0; worker 1 in rack 1 */
    s.policy = 3;  /* round robin */
    s.racks = 2;
    s.same_rack_ns = 1000;
    s.cross_rack_ns = 5000;
    s.service = (struct sim_dist){SIM_DIST_DETERMINISTIC, 1e5, 0};
    struct sim_trace t = traced(&s, &r);
    size_t near = 0, far = 0;
    for (size_t i = 0; i < t.n; i++) {
        near += t.sojourn_ns[i] == 100000 + 3 * 1000;
        far += t.sojourn_ns[i] == 100000 + 1000 + 2 * 5000;
    }
    assert_true(near > 900 && far > 900);
    assert_true(near + far > t.n - 20); /* a few meet at one worker */
    release(&t);
}

/* what was not answered is infinite in every percentile, and each row of time says how much there was. */
static void unanswered_requests_stay_in_the_percentiles(void **state)
{
    (void)state;
    struct sim_scenario s = quiet();
    struct sim_result r;
    struct sim_extras *x = calloc(1, sizeof *x);
    assert_non_null(x);
    s.requests = 20000;
    s.timeout_ns = 30000000;
    s.series_ms = 100;
    s.links_n = 1;
    s.link[0] = (struct sim_link){
        .from = SIM_END_WORKER, .to = SIM_END_CLIENT, .from_index = -1, .to_index = -1, .delay_us = -1, .loss = 0.02};
    sim_run_full(&s, &r, NULL, x);
    assert_true(isinf(x->point.p99_ns) && isinf(x->point.p999_ns) && isfinite(x->point.p50_ns));
    assert_int_equal(x->point.measured, 20000);
    assert_int_equal(x->point.outcome[SIM_SUCCESS] + x->point.outcome[SIM_TIMEOUT], 20000);
    assert_int_equal(x->hist.inf, x->point.outcome[SIM_TIMEOUT]);
    assert_int_equal(x->hist.total, 20000);
    uint64_t sent = 0, replies = 0, timeouts = 0;
    for (uint32_t i = 0; i < x->rows; i++) {
        sent += x->row[i].sent;
        replies += x->row[i].replies;
        timeouts += x->row[i].timeouts;
    }
    assert_true(x->rows > 20);
    assert_int_equal(sent, 20000);
    assert_int_equal(replies, x->point.outcome[SIM_SUCCESS]);
    assert_int_equal(timeouts, x->point.outcome[SIM_TIMEOUT]);
    free(x);
}

/* Everything a run of this scenario and seed tells, but how long it took. */
static void tell(const char *path, uint64_t seed, struct sim_result *r, struct sim_extras *x)
{
    static struct sim_scenario s;
    char err[1000] = "";
    struct sim_template *t = sim_template_load(path, err, sizeof err);
    if (t == NULL || sim_template_draw(t, seed, &s, err, sizeof err) != 0) {
        fail_msg("%s", err);
    }
    sim_template_free(t);
    if (s.requests > 2000) {
        s.requests = 2000;
    }
    memset(r, 0, sizeof *r);
    memset(x, 0, sizeof *x);
    sim_run_full(&s, r, NULL, x);
    r->wall_seconds = 0;
}

/* memory is used again within a process and comes with whatever the run before left in it. */
static void q60_a_run_depends_neither_on_the_runs_before_nor_on_what_memory_held(void **state)
{
    static const char *const paths[] = {"dataplane/tests/sim/faults.yaml", "dataplane/tests/sim/faults-hosts.yaml",
                                        "dataplane/tests/sim/faults-tables.yaml",
                                        "dataplane/tests/sim/faults-legacy.yaml", "examples/sim/choose-n.yaml"};
    static const int bytes[] = {0xa5, 0xff, -1, 1};
    static struct sim_result first, again;
    static struct sim_extras first_x, again_x;
    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        for (uint64_t seed = 1; seed <= 3; seed++) {
            sim_memory_fill(0);
            tell(paths[i], seed, &first, &first_x);
            assert_true(first.packets > 0);
            for (size_t b = 0; b < sizeof bytes / sizeof bytes[0]; b++) {
                sim_memory_fill(-1);
                tell(paths[i], seed + 10, &again, &again_x);
                assert_memory_not_equal(&first, &again, sizeof first);
                sim_memory_fill(bytes[b]);
                tell(paths[i], seed, &again, &again_x);
                assert_memory_equal(&first, &again, sizeof first);
                assert_memory_equal(&first_x, &again_x, sizeof first_x);
            }
        }
    }
    sim_memory_fill(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_scenarios_name_line_and_field),
        cmocka_unit_test(wrong_keys_values_and_contradictions_are_named),
        cmocka_unit_test(other_words_mean_the_same),
        cmocka_unit_test(every_key_of_the_schema_is_read),
        cmocka_unit_test(schema_and_reference_are_those_of_the_reader),
        cmocka_unit_test(mmpp_keeps_its_rate_and_comes_in_bursts),
        cmocka_unit_test(phases_change_the_load),
        cmocka_unit_test(traces_are_replayed_row_by_row_and_again),
        cmocka_unit_test(k14_erlang_and_hyperexponential_in_a_scenario),
        cmocka_unit_test(k13_counted_traces_mean_the_same_in_a_scenario),
        cmocka_unit_test(bad_traces_are_named_by_line_and_column),
        cmocka_unit_test(threads_of_one_server_are_a_multi_server_queue),
        cmocka_unit_test(links_lose_delay_and_serialise),
        cmocka_unit_test(racks_add_their_delay),
        cmocka_unit_test(unanswered_requests_stay_in_the_percentiles),
        cmocka_unit_test(q60_a_run_depends_neither_on_the_runs_before_nor_on_what_memory_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
