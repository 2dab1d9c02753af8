// SPDX-License-Identifier: Apache-2.0
// From the text of a request to the text of its answer. Whatever is wrong with a request, the
// answer says so and the connection stays usable.
#include "ctl/ctl_internal.h"
#include "ctl/file.h"
#include "ctl/json.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOW_MAX 600
#define PARTS_MAX  20

// Every field any request may have.
struct request {
    int64_t v;
    char op[32];
    char hash[80];
    const char *config; // text of the inline configuration, NULL if absent
    size_t config_len;
    bool memfd;
    int64_t size;
    char name[BT_CONFIG_TEXT];
    char address[64];
    int64_t id, member_port, client_port;
    int64_t window_seconds;
    int64_t end_second; // last second of the window, on the dataplane's clock; 0: the present one
    int64_t parts;      // stretches of the window to be told apart; 0: none
    int64_t after;      // traced pairs the reader has had
    unsigned seen;
};

enum field {
    V,
    OP,
    HASH,
    CONFIG,
    MEMFD,
    SIZE,
    NAME,
    WINDOW,
    END,
    PARTS,
    AFTER,
    ID,
    ADDRESS,
    MEMBER_PORT,
    CLIENT_PORT,
    FIELDS
};

enum field_kind { INTEGER, TEXT, TRUTH, SPAN };

#define AT(member) offsetof(struct request, member), sizeof(((struct request *)0)->member)
static const struct {
    const char *name;
    enum field_kind kind;
    size_t at, size;
} fields[FIELDS] = {
    [V] = {"v", INTEGER, AT(v)},
    [OP] = {"op", TEXT, AT(op)},
    [HASH] = {"hash", TEXT, AT(hash)},
    [CONFIG] = {"config", SPAN, AT(config)},
    [MEMFD] = {"memfd", TRUTH, AT(memfd)},
    [SIZE] = {"size", INTEGER, AT(size)},
    [NAME] = {"name", TEXT, AT(name)},
    [WINDOW] = {"windowSeconds", INTEGER, AT(window_seconds)},
    [END] = {"endSecond", INTEGER, AT(end_second)},
    [PARTS] = {"parts", INTEGER, AT(parts)},
    [AFTER] = {"after", INTEGER, AT(after)},
    [ID] = {"id", INTEGER, AT(id)},
    [ADDRESS] = {"address", TEXT, AT(address)},
    [MEMBER_PORT] = {"memberPort", INTEGER, AT(member_port)},
    [CLIENT_PORT] = {"clientPort", INTEGER, AT(client_port)},
};

static int field_of(const char *key)
{
    for (int i = 0; i < FIELDS; i++) {
        if (strcmp(fields[i].name, key) == 0) {
            return i;
        }
    }
    return -1;
}

static bool read_int(struct bt_json *j, int64_t *out)
{
    const char *text;
    size_t len;
    return bt_json_peek(j) == BT_JSON_NUMBER && bt_json_number(j, &text, &len) && bt_json_to_int(text, len, out);
}

static bool read_text(struct bt_json *j, char *buf, size_t cap)
{
    size_t len;
    return bt_json_peek(j) == BT_JSON_STRING && bt_json_string(j, buf, cap, &len) && strlen(buf) == len;
}

static bool read_field(struct bt_json *j, enum field f, struct request *q)
{
    void *to = (char *)q + fields[f].at;
    switch (fields[f].kind) {
    case INTEGER:
        return read_int(j, to);
    case TEXT:
        return read_text(j, to, fields[f].size);
    case TRUTH:
        return bt_json_peek(j) == BT_JSON_BOOLEAN && bt_json_boolean(j, to);
    case SPAN: // read later, where its text lies
        return bt_json_skip(j, &q->config, &q->config_len);
    }
    return false;
}

static bool not_json(const struct bt_json *j, struct bt_ctl_error *e)
{
    return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, NULL, "is not a JSON request: %s at byte %zu",
                         j->failed != NULL ? j->failed : "unexpected text", j->at);
}

static bool parse_request(const char *text, size_t len, struct request *q, struct bt_ctl_error *e)
{
    struct bt_json j;
    char key[32];
    int more;
    bt_json_init(&j, text, len);
    if (bt_json_peek(&j) != BT_JSON_OBJECT || !bt_json_enter(&j)) {
        return not_json(&j, e);
    }
    while ((more = bt_json_key(&j, key, sizeof key)) == 1) {
        int f = field_of(key);
        if (f < 0) {
            return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, key, "unknown field; remove it");
        }
        if (q->seen & (1u << f)) {
            return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, key, "occurs twice; keep one");
        }
        q->seen |= 1u << f;
        if (!read_field(&j, (enum field)f, q)) {
            return j.failed != NULL
                       ? not_json(&j, e)
                       : bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, key, "has the wrong type or is too long");
        }
    }
    return (more == 0 && bt_json_end(&j)) || not_json(&j, e);
}

static bool answer_hello(struct bt_ctl *c, struct bt_json_out *o)
{
    bt_ctl_reply_begin(o, true);
    bt_json_out_string(o, "role", c->app.role);
    bt_json_out_string(o, "version", BOBTAIL_VERSION);
    bt_json_out_u64(o, "incarnation", c->app.incarnation);
    bt_json_out_i64(o, "pid", getpid());
    bt_json_out_close(o, '}');
    return true;
}

// The configuration's text: inside the request, or copied from the memfd into *copy.
static const char *config_text(const struct request *q, const int *fds, size_t n_fds, size_t *len, char **copy,
                               struct bt_ctl_error *e)
{
    *copy = NULL;
    if (!q->memfd) {
        if (q->config == NULL) {
            bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "config", "is required; send it inline or by memfd");
        }
        *len = q->config_len;
        return q->config;
    }
    if (n_fds != 1) {
        bool more = n_fds > BT_CTL_FDS_MAX;
        bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "memfd", "needs exactly one file descriptor; got %s%zu",
                      more ? "more than " : "", more ? BT_CTL_FDS_MAX : n_fds);
        return NULL;
    }
    if (q->size < 1 || q->size > (int64_t)BT_CONFIG_BYTES_MAX) {
        bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "size", "must be 1..%u; got %" PRId64, BT_CONFIG_BYTES_MAX, q->size);
        return NULL;
    }
    *len = (size_t)q->size;
    *copy = bt_memfd_read(fds[0], *len, e);
    return *copy;
}

static bool answer_apply(struct bt_ctl *c, const struct request *q, const int *fds, size_t n_fds, struct bt_json_out *o,
                         struct bt_ctl_error *e)
{
    size_t len;
    char *copy;
    char hash[BT_CONFIG_HASH];
    bool unchanged = false;
    const char *text = config_text(q, fds, n_fds, &len, &copy, e);
    if (text == NULL) {
        return false;
    }
    bt_config_hash(text, len, hash);
    bool ok = strcmp(hash, q->hash) == 0 ||
              bt_ctl_refuse(e, BT_CTL_HASH_MISMATCH, "hash", "must be the SHA-256 of the configuration, %s; got \"%s\"",
                            hash, q->hash);
    ok = ok && bt_ctl_apply_text(c, text, len, false, &unchanged, e);
    free(copy);
    if (ok) {
        bt_ctl_reply_begin(o, true);
        bt_json_out_string(o, "hash", hash);
        bt_json_out_bool(o, "unchanged", unchanged);
        bt_json_out_close(o, '}');
    }
    return ok;
}

struct state_call {
    struct bt_ctl *ctl;
    struct bt_json_out *out;
};

static void state_in_loop(void *arg)
{
    struct state_call *a = arg;
    struct bt_ctl *c = a->ctl;
    c->app.state(c->app.arg, &c->state);
    if (c->app.describe != NULL) { // what it says is the loop's
        bt_ctl_reply_state(a->out, c->hash, &c->state, &c->app);
    }
}

static void counters_in_loop(void *arg)
{
    struct bt_ctl *c = arg;
    c->app.counters(c->app.arg, c->samples);
}

static void leave_in_loop(void *arg)
{
    const struct bt_ctl *c = arg;
    c->app.leave(c->app.arg);
}

// Nothing to do but to have been there: see mailbox.h on what the loop has taken by then.
static void visit_loop(void *arg)
{
    (void)arg;
}

static bool in_loop(struct bt_ctl *c, void (*fn)(void *), struct bt_ctl_error *e)
{
    return bt_mailbox_call(c->mailbox, fn, c) ||
           bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "the packet loop does not answer; try again");
}

static bool answer_state(struct bt_ctl *c, struct bt_json_out *o, struct bt_ctl_error *e)
{
    struct bt_ctl_state *s = &c->state;
    s->n_members = s->n_routers = s->n_workers = 0;
    if (!bt_mailbox_call(c->mailbox, state_in_loop, &(struct state_call){c, o})) {
        return bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "the packet loop does not answer; try again");
    }
    if (c->app.describe == NULL) {
        bt_ctl_reply_state(o, c->hash, s, NULL);
    }
    return true;
}

static bool answer_counters(struct bt_ctl *c, struct bt_json_out *o, struct bt_ctl_error *e)
{
    c->samples->n_counters = c->samples->n_gauges = 0;
    if (!in_loop(c, counters_in_loop, e)) {
        return false;
    }
    bt_ctl_reply_samples(o, c->samples);
    return true;
}

static bool answer_leave(struct bt_ctl *c, struct bt_json_out *o, struct bt_ctl_error *e)
{
    if (!in_loop(c, leave_in_loop, e)) {
        return false;
    }
    bt_ctl_reply_begin(o, true);
    bt_json_out_bool(o, "draining", true);
    bt_json_out_close(o, '}');
    return true;
}

#define SECOND 1000000000ull

// When the window asked for ends: now, or the end of a second that is over. A reader that adds
// windows up (Prometheus wants an ever-growing histogram) asks for each second exactly once.
static uint64_t window_end(const struct request *q, uint64_t now_ns)
{
    uint64_t second = (uint64_t)q->end_second;
    return q->end_second > 0 && second < now_ns / SECOND ? (second + 1) * SECOND - 1 : now_ns;
}

static void total_in_loop(void *arg)
{
    struct bt_ctl *c = arg;
    const struct bt_hist *h = c->app.totals(c->app.arg, c->total_name);
    c->total_known = h != NULL;
    if (h != NULL) {
        *c->hist = *h;
    }
}

// Of a program's whole life: there is no window to ask for.
static void reply_total(struct bt_ctl *c, const struct request *q, struct bt_json_out *o)
{
    bt_ctl_reply_begin(o, true);
    bt_json_out_string(o, "name", q->name);
    bt_json_out_string(o, "source", c->app.histogram_source);
    bt_ctl_reply_histogram(o, "histogram", c->hist);
    bt_json_out_u64(o, "requests", c->hist->total);
    bt_json_out_u64(o, "rejected", 0);
    bt_json_out_close(o, '}');
}

// The window in equal stretches, the newest first, as far back as the program lived. The whole is their sum, so that
// nothing that comes in meanwhile is in one and not in the other.
static void reply_parts(struct bt_ctl *c, const struct request *q, const struct bt_hist_slices *slices, uint64_t end_ns,
                        struct bt_hist_window *whole, struct bt_json_out *o)
{
    uint64_t window = (uint64_t)q->window_seconds;
    uint64_t parts = (uint64_t)q->parts < window ? (uint64_t)q->parts : window;
    bt_hist_clear(c->hist);
    *whole = (struct bt_hist_window){0};
    bt_json_out_open(o, "parts", '[');
    for (uint64_t i = 0; i < parts; i++) {
        uint64_t from = window * i / parts;
        uint64_t to = window * (i + 1) / parts;
        struct bt_hist_window part;
        if (end_ns / SECOND < from) {
            break;
        }
        uint64_t until = i == 0 ? end_ns : (end_ns / SECOND - from + 1) * SECOND - 1;
        bt_hist_slices_merge(slices, until, (uint32_t)(to - from), c->part, &part);
        if (part.covered_seconds == 0) {
            break;
        }
        bt_ctl_reply_histogram(o, NULL, c->part);
        bt_hist_merge(c->hist, c->part);
        whole->covered_seconds += part.covered_seconds;
        whole->arrived += part.arrived;
        whole->rejected += part.rejected;
    }
    bt_json_out_close(o, ']');
}

static bool check_parts(const struct request *q, struct bt_ctl_error *e)
{
    bool absent = (q->seen & (1u << PARTS)) == 0;
    return absent || (q->parts >= 1 && q->parts <= PARTS_MAX) ||
           bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "parts", "must be 1..%d; got %" PRId64, PARTS_MAX, q->parts);
}

static bool answer_histogram(struct bt_ctl *c, const struct request *q, struct bt_json_out *o, struct bt_ctl_error *e)
{
    struct bt_hist_window window;
    c->total_name = q->name;
    c->total_known = false;
    if (c->app.totals != NULL && !in_loop(c, total_in_loop, e)) {
        return false;
    }
    if (c->total_known) {
        reply_total(c, q, o);
        return true;
    }
    if (q->window_seconds < 1 || q->window_seconds > WINDOW_MAX) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "windowSeconds", "must be 1..%d; got %" PRId64, WINDOW_MAX,
                             q->window_seconds);
    }
    if (!check_parts(q, e)) {
        return false;
    }
    const struct bt_hist_slices *slices = c->app.slices(c->app.arg, q->name);
    if (slices == NULL) {
        return bt_ctl_refuse(e, BT_CTL_UNKNOWN_HISTOGRAM, "name", "must be one of %s; got \"%s\"",
                             c->app.histogram_names, q->name);
    }
    if (!in_loop(c, visit_loop, e)) {
        return false;
    }
    uint64_t now_ns = c->app.now(c->app.arg);
    bt_ctl_reply_begin(o, true);
    if (q->parts > 0) {
        reply_parts(c, q, slices, window_end(q, now_ns), &window, o);
    } else {
        bt_hist_slices_merge(slices, window_end(q, now_ns), (uint32_t)q->window_seconds, c->hist, &window);
    }
    bt_json_out_string(o, "name", q->name);
    bt_json_out_string(o, "source", c->app.histogram_source);
    bt_json_out_i64(o, "windowSeconds", q->window_seconds);
    bt_json_out_u64(o, "coveredSeconds", window.covered_seconds);
    bt_ctl_reply_histogram(o, "histogram", c->hist);
    bt_json_out_u64(o, "requests", window.arrived);
    bt_json_out_u64(o, "rejected", window.rejected);
    bt_json_out_u64(o, "second", now_ns / SECOND);
    bt_json_out_close(o, '}');
    return true;
}

static void traces_in_loop(void *arg)
{
    struct bt_ctl *c = arg;
    struct bt_ctl_traces *t = &c->traces;
    const struct bt_trace_ring *ring = c->app.traces(c->app.arg);
    t->count = ring != NULL ? bt_trace_read(ring, t->after, t->trace, BT_CTL_TRACES_MAX, &t->next, &t->lost) : 0;
    t->now_ns = c->app.now(c->app.arg);
}

static bool answer_traces(struct bt_ctl *c, const struct request *q, struct bt_json_out *o, struct bt_ctl_error *e)
{
    struct bt_ctl_traces *t = &c->traces;
    if (c->app.traces == NULL) {
        return bt_ctl_refuse(e, BT_CTL_UNKNOWN_OPERATION, "op", "a %s keeps no traces", c->app.role);
    }
    if (q->after < 0) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "after", "must be 0 or more; got %" PRId64, q->after);
    }
    t->after = (uint64_t)q->after;
    t->next = t->lost = 0;
    if (!in_loop(c, traces_in_loop, e)) {
        return false;
    }
    bt_ctl_reply_traces(o, t);
    return true;
}

struct own_call {
    const struct bt_ctl *ctl;
    const struct bt_ctl_operation *op;
    const struct bt_ctl_ask *ask;
    struct bt_json_out *out;
    struct bt_ctl_error *error;
    bool ok;
};

static void own_in_loop(void *arg)
{
    struct own_call *a = arg;
    bt_ctl_reply_begin(a->out, true);
    a->ok = a->op->answer(a->ctl->app.arg, a->ask, a->out, a->error);
    bt_json_out_close(a->out, '}');
}

static bool answer_own(const struct bt_ctl *c, const struct bt_ctl_operation *op, const struct request *q,
                       struct bt_json_out *o, struct bt_ctl_error *e)
{
    struct bt_ctl_ask ask = {.id = q->id,
                             .member_port = q->member_port,
                             .client_port = q->client_port,
                             .name = q->name,
                             .address = q->address};
    struct own_call call = {.ctl = c, .op = op, .ask = &ask, .out = o, .error = e};
    if (!bt_mailbox_call(c->mailbox, own_in_loop, &call)) {
        return bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "the packet loop does not answer; try again");
    }
    return call.ok;
}

static const struct bt_ctl_operation *own_operation(const struct bt_ctl *c, const char *name)
{
    const struct bt_ctl_operation *op = c->app.operations;
    while (op != NULL && op->name != NULL && strcmp(op->name, name) != 0) {
        op++;
    }
    return op != NULL && op->name != NULL ? op : NULL;
}

static bool dispatch(struct bt_ctl *c, const struct request *q, const int *fds, size_t n_fds, struct bt_json_out *o,
                     struct bt_ctl_error *e)
{
    if (!(q->seen & (1u << V)) || q->v != BT_CTL_VERSION) {
        return bt_ctl_refuse(e, BT_CTL_UNSUPPORTED_VERSION, "v", "must be %d; got %" PRId64, BT_CTL_VERSION, q->v);
    }
    if (strcmp(q->op, "hello") == 0) {
        return answer_hello(c, o);
    }
    if (strcmp(q->op, "apply") == 0) {
        return answer_apply(c, q, fds, n_fds, o, e);
    }
    if (strcmp(q->op, "state") == 0) {
        return answer_state(c, o, e);
    }
    if (strcmp(q->op, "counters") == 0) {
        return answer_counters(c, o, e);
    }
    if (strcmp(q->op, "histogram") == 0) {
        return answer_histogram(c, q, o, e);
    }
    if (strcmp(q->op, "leave") == 0) {
        return answer_leave(c, o, e);
    }
    if (strcmp(q->op, "traces") == 0) {
        return answer_traces(c, q, o, e);
    }
    const struct bt_ctl_operation *op = own_operation(c, q->op);
    if (op != NULL) {
        return answer_own(c, op, q, o, e);
    }
    return bt_ctl_refuse(e, BT_CTL_UNKNOWN_OPERATION, "op",
                         "must be one of hello, apply, state, counters, histogram, leave, traces; got \"%s\"", q->op);
}

char *bt_ctl_answer(struct bt_ctl *c, const char *text, size_t len, const int *fds, size_t n_fds)
{
    struct request q = {0};
    struct bt_json_out o = {0};
    struct bt_ctl_error e = {.code = BT_CTL_INTERNAL};
    bool ok = len <= BT_CTL_INLINE_MAX ? parse_request(text, len, &q, &e) && dispatch(c, &q, fds, n_fds, &o, &e)
                                       : bt_ctl_refuse(&e, BT_CTL_INVALID_REQUEST, NULL,
                                                       "a message must have at most %u bytes; send a longer "
                                                       "configuration by memfd",
                                                       BT_CTL_INLINE_MAX);
    if (!ok) {
        bt_json_out_free(&o);
        bt_ctl_reply_error(&o, &e);
    }
    if (o.overflow) {
        bt_json_out_free(&o);
    }
    return o.text;
}
