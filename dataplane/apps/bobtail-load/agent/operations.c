// SPDX-License-Identifier: Apache-2.0
// What a coordinator may ask for, and in which state (docs/reference/lancet-agent.md).
#include "agent/session.h"

#include "agent/fields.h"

#include "shell/start.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

enum { RECORDS_PER_WRITE = 1024, SAMPLES_PATIENCE_MS = 10000, DAY = 86400 };

static void begin_ok(struct bt_json_out *o)
{
    bt_json_out_open(o, NULL, '{');
    bt_json_out_bool(o, "ok", true);
}

static bool end_ok(struct bt_json_out *o)
{
    bt_json_out_close(o, '}');
    return true;
}

static bool state_answer(const struct agent *a, struct bt_json_out *o)
{
    begin_ok(o);
    bt_json_out_string(o, "state", session_state_name(a));
    return end_ok(o);
}

static bool wrong_state(const struct agent *a, const char *needed, struct bt_ctl_error *e)
{
    return bt_ctl_refuse(e, AGENT_WRONG_STATE, "op", "needs the state %s; it is %s", needed, session_state_name(a));
}

static bool configure(struct session *s, const char *line, size_t len, struct bt_ctl_error *e)
{
    struct agent *a = &s->agent;
    struct agent_config fresh;
    if (a->state == AGENT_LOADING) {
        return wrong_state(a, "Idle or Ready", e);
    }
    if (!agent_config_read(line, len, &fresh, e)) {
        return false;
    }
    // What was configured before is gone even if this fails: the targets may not take both.
    agent_workers_stop(a);
    agent_config_free(&a->config);
    free(a->window.records);
    a->window.records = NULL;
    a->window.last = 0;
    a->config = fresh;
    a->state = AGENT_IDLE;
    if (!session_setup_begin(s, e)) {
        return false;
    }
    s->later = SESSION_CONFIGURING;
    return true;
}

static bool configured(struct session *s, struct bt_json_out *o, struct bt_ctl_error *e)
{
    struct agent *a = &s->agent;
    char text[AGENT_BUSY_POLL_TEXT];
    session_setup_end(s, true);
    if (!s->setup_ok) {
        *e = s->setup_error;
        return false;
    }
    a->state = AGENT_READY;
    begin_ok(o);
    bt_json_out_string(o, "timestamps", agent_stamps_name[a->stamps]);
    bt_json_out_string(o, "busyPoll", agent_busy_poll_said(a, text));
    bt_json_out_u64(o, "streams", a->config.threads);
    bt_json_out_u64(o, "connections", a->config.connections);
    bt_json_out_u64(o, "seed", a->config.seed);
    return end_ok(o);
}

static void set_rate(struct agent *a, double per_second)
{
    uint64_t bits;
    per_second /= a->config.threads;
    memcpy(&bits, &per_second, sizeof bits);
    atomic_store(&a->rate_bits, bits);
    agent_wake(a);
}

struct asked_load {
    double rate; // requests per second
};
static const struct bt_shape_field load_fields[] = {
    AGENT_OP_FIELD,
    {"rate", BT_SHAPE_NUMBER, true, BT_SHAPE_AT(struct asked_load, rate), .min = 0.01, .max = 1e8},
};
static const struct bt_shape load_shape = AGENT_SHAPE(load_fields);

struct asked_window {
    uint32_t samples;
    double rate, seconds;
};
static const struct bt_shape_field measure_fields[] = {
    AGENT_OP_FIELD,
    {"samples", BT_SHAPE_WHOLE, false, BT_SHAPE_AT(struct asked_window, samples), .max = AGENT_SAMPLES},
    {"samplingRate", BT_SHAPE_NUMBER, false, BT_SHAPE_AT(struct asked_window, rate), .min = 1e-9, .max = 1},
    {"seconds", BT_SHAPE_NUMBER, false, BT_SHAPE_AT(struct asked_window, seconds), .min = 0.001, .max = DAY},
};
static const struct bt_shape measure_shape = AGENT_SHAPE(measure_fields);

static bool load(struct session *s, const char *line, size_t len, struct bt_json_out *o, struct bt_ctl_error *e)
{
    struct asked_load asked = {0};
    if (!agent_read_fields(line, len, &load_shape, &asked, e)) {
        return false;
    }
    if (s->agent.state == AGENT_IDLE) {
        return wrong_state(&s->agent, "Ready or Loading", e);
    }
    set_rate(&s->agent, asked.rate);
    s->agent.state = AGENT_LOADING;
    return state_answer(&s->agent, o);
}

static bool measure(struct session *s, const char *line, size_t len, struct bt_json_out *o, struct bt_ctl_error *e)
{
    struct agent *a = &s->agent;
    struct asked_window asked = {.rate = 1, .seconds = DAY};
    if (!agent_read_fields(line, len, &measure_shape, &asked, e)) {
        return false;
    }
    if (a->state != AGENT_LOADING || (a->window.last != 0 && !agent_window_complete(a))) {
        return wrong_state(a, "Loading", e);
    }
    if (!agent_window_open(a, asked.samples, asked.rate, (uint64_t)(asked.seconds * 1e9))) {
        return bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "out of memory for %u samples", asked.samples);
    }
    return state_answer(a, o);
}

// Arrivals end at once; what is on its way ends within the timeout.
static bool stop(struct session *s, struct bt_ctl_error *e)
{
    struct agent *a = &s->agent;
    if (a->state == AGENT_IDLE) {
        return wrong_state(a, "Ready or Loading", e);
    }
    if (a->window.last != 0) {
        agent_window_close(a, agent_now(a));
    }
    set_rate(a, 0);
    s->give_up_ns = bt_monotonic_ns() + a->config.timeout_ns + UINT64_C(1000000000);
    s->later = SESSION_STOPPING;
    return true;
}

bool session_done(const struct session *s, uint64_t now_ns)
{
    if (s->later == SESSION_CONFIGURING) {
        return atomic_load(&s->setup_done);
    }
    return agent_idle(&s->agent) || now_ns >= s->give_up_ns;
}

bool session_finish(struct session *s, struct bt_json_out *o, struct bt_ctl_error *e)
{
    if (s->later == SESSION_CONFIGURING) {
        return configured(s, o, e);
    }
    s->agent.state = AGENT_READY;
    return state_answer(&s->agent, o);
}

static uint32_t sample_count(const struct agent *a)
{
    uint32_t claimed = atomic_load(&a->window.claimed);
    return claimed < a->window.wanted ? claimed : a->window.wanted;
}

static bool samples(struct session *s, struct bt_json_out *o, struct bt_ctl_error *e)
{
    struct agent *a = &s->agent;
    if (a->state == AGENT_IDLE || !agent_window_complete(a)) {
        return bt_ctl_refuse(e, AGENT_WRONG_STATE, "op", "needs a complete measurement; poll until window.complete");
    }
    begin_ok(o);
    bt_json_out_u64(o, "count", sample_count(a));
    bt_json_out_u64(o, "recordBytes", AGENT_RECORD_BYTES);
    bt_json_out_u64(o, "bytes", (uint64_t)sample_count(a) * AGENT_RECORD_BYTES);
    return end_ok(o);
}

static void put_record(uint8_t out[AGENT_RECORD_BYTES], const struct agent_record *r)
{
    const uint64_t words[5] = {htole64(r->intended_ns), htole64(r->sent_ns), htole64(r->received_ns),
                               htole64(r->stamped_ns), htole64(r->gap_ns)};
    uint16_t connection = htole16(r->connection);
    memset(out, 0, AGENT_RECORD_BYTES);
    memcpy(out, words, sizeof words);
    memcpy(out + 40, &connection, sizeof connection);
    out[42] = r->outcome;
    out[43] = r->stamps;
    out[44] = r->operation;
    uint64_t trace = htole64(r->trace);
    memcpy(out + 48, &trace, sizeof trace);
}

bool session_send_samples(struct session *s)
{
    static uint8_t block[RECORDS_PER_WRITE * AGENT_RECORD_BYTES];
    uint32_t n = sample_count(&s->agent);
    for (uint32_t from = 0; from < n; from += RECORDS_PER_WRITE) {
        uint32_t part = n - from < RECORDS_PER_WRITE ? n - from : RECORDS_PER_WRITE;
        for (uint32_t i = 0; i < part; i++) {
            put_record(block + (size_t)i * AGENT_RECORD_BYTES, &s->agent.window.records[from + i]);
        }
        if (!session_write(s->fd, block, (size_t)part * AGENT_RECORD_BYTES, SAMPLES_PATIENCE_MS)) {
            return false;
        }
    }
    return true;
}

bool session_operation(struct session *s, const char *op, const char *line, size_t len, struct bt_json_out *o,
                       struct bt_ctl_error *e)
{
    if (strcmp(op, "configure") == 0) {
        return configure(s, line, len, e);
    }
    if (strcmp(op, "load") == 0) {
        return load(s, line, len, o, e);
    }
    if (strcmp(op, "measure") == 0) {
        return measure(s, line, len, o, e);
    }
    if (strcmp(op, "hello") == 0) {
        return bt_ctl_refuse(e, AGENT_WRONG_STATE, "op", "comes first, once, and where the agent asks for a token");
    }
    bool alive = strcmp(op, "alive") == 0;
    bool bare = alive || strcmp(op, "poll") == 0 || strcmp(op, "samples") == 0 || strcmp(op, "stop") == 0;
    if (!bare) {
        return bt_ctl_refuse(e, BT_CTL_UNKNOWN_OPERATION, "op",
                             "\"%s\" is none of hello, configure, load, measure, poll, samples, stop, alive", op);
    }
    if (!agent_read_fields(line, len, NULL, NULL, e)) {
        return false;
    }
    if (alive) {
        return state_answer(&s->agent, o);
    }
    if (strcmp(op, "samples") == 0) {
        return samples(s, o, e);
    }
    if (strcmp(op, "stop") == 0) {
        return stop(s, e);
    }
    if (s->agent.state == AGENT_IDLE) {
        return wrong_state(&s->agent, "Ready or Loading", e);
    }
    session_report(&s->agent, o);
    return true;
}
