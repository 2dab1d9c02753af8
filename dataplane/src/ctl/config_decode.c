// SPDX-License-Identifier: Apache-2.0
// From JSON to struct bt_config, driven by one table of fields per object. This pass knows names,
// types, duplicates and what is missing; bounds are config_check.c's.
#include "ctl/config.h"
#include "ctl/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum field_kind { TEXT, INTEGER, OBJECT, LIST };

struct shape;

struct field {
    const char *name;
    enum field_kind kind;
    size_t offset;       // of the value (TEXT, INTEGER), or of the pointer to items (LIST)
    size_t count_offset; // LIST: of the number of items; OBJECT that may be missing: of what is 1 when it is there
    const struct shape *shape; // OBJECT: what is in it, at the same base; LIST: the items, NULL = integers
    bool optional;             // OBJECT, TEXT: may be missing
};

struct shape {
    size_t size; // of one list item
    unsigned n;
    struct field fields[16];
};

#define SVC(f) offsetof(struct bt_config, service.f)
#define SRC(f) offsetof(struct bt_config_source, f)
#define MEM(f) offsetof(struct bt_config_member, f)
#define RTR(f) offsetof(struct bt_config_router, f)

static const struct shape source_shape = {
    .size = sizeof(struct bt_config_source),
    .n = 5,
    .fields = {{"kind", TEXT, SRC(kind), 0, NULL},
               {"namespace", TEXT, SRC(namespace), 0, NULL},
               {"name", TEXT, SRC(name), 0, NULL},
               {"uid", TEXT, SRC(uid), 0, NULL},
               {"generation", INTEGER, SRC(generation), 0, NULL}},
};
static const struct shape hold_back_shape = {
    .n = 2,
    .fields = {{"packets", INTEGER, SVC(hold_back_packets), 0, NULL},
               {"microseconds", INTEGER, SVC(hold_back_us), 0, NULL}},
};
static const struct shape admission_shape = {
    .n = 5,
    .fields = {{"mode", TEXT, SVC(admission.mode), 0, NULL},
               {"controller", TEXT, SVC(admission.controller), 0, NULL},
               {"latencyMicroseconds", INTEGER, SVC(admission.latency_us), 0, NULL},
               {"percentilePer100000", INTEGER, SVC(admission.per_100k), 0, NULL},
               {"droppableClasses", LIST, SVC(admission.droppable), SVC(admission.n_droppable), NULL}},
};
static const struct shape hedging_shape = {
    .n = 6,
    .fields = {{"mode", TEXT, SVC(hedging.mode), 0, NULL},
               {"busyPercent", INTEGER, SVC(hedging.busy_percent), 0, NULL},
               {"budgetPercent", INTEGER, SVC(hedging.budget_percent), 0, NULL},
               {"percentilePer100000", INTEGER, SVC(hedging.per_100k), 0, NULL},
               {"probePerMillion", INTEGER, SVC(hedging.probe_per_million), 0, NULL},
               {"cancellation", TEXT, SVC(hedging.cancellation), 0, NULL, true}},
};
static const struct shape service_shape = {
    .n = 15,
    .fields = {{"name", TEXT, SVC(name), 0, NULL},
               {"namespace", TEXT, SVC(namespace), 0, NULL},
               {"placement", TEXT, SVC(placement), 0, NULL},
               {"policy", TEXT, SVC(policy), 0, NULL},
               {"workerQueueDepth", INTEGER, SVC(worker_queue_depth), 0, NULL},
               {"centralQueueLimit", INTEGER, SVC(central_queue_limit), 0, NULL},
               {"maxQueueMilliseconds", INTEGER, SVC(max_queue_ms), 0, NULL},
               {"forwarding", TEXT, SVC(forwarding), 0, NULL},
               {"deviceProfile", TEXT, SVC(device_profile), 0, NULL},
               {"legacyPeers", TEXT, SVC(legacy_peers), 0, NULL},
               {"requestTimeoutMilliseconds", INTEGER, SVC(request_timeout_ms), 0, NULL},
               {"workersPerReplica", INTEGER, SVC(workers_per_replica), 0, NULL},
               {"holdBack", OBJECT, 0, 0, &hold_back_shape},
               {"admission", OBJECT, 0, SVC(admission.given), &admission_shape, true},
               {"hedging", OBJECT, 0, SVC(hedging.given), &hedging_shape, true}},
};
static const struct shape member_shape = {
    .size = sizeof(struct bt_config_member),
    .n = 4,
    .fields = {{"address", TEXT, MEM(address), 0, NULL},
               {"firstPort", INTEGER, MEM(first_port), 0, NULL},
               {"workers", INTEGER, MEM(workers), 0, NULL},
               {"name", TEXT, MEM(name), 0, NULL}},
};
static const struct shape router_shape = {
    .size = sizeof(struct bt_config_router),
    .n = 4,
    .fields = {{"address", TEXT, RTR(address), 0, NULL},
               {"requestPort", INTEGER, RTR(request_port), 0, NULL},
               {"feedbackPort", INTEGER, RTR(feedback_port), 0, NULL},
               {"name", TEXT, RTR(name), 0, NULL}},
};
static const struct shape document_shape = {
    .n = 6,
    .fields =
        {{"apiVersion", TEXT, offsetof(struct bt_config, api_version), 0, NULL},
         {"sources", LIST, offsetof(struct bt_config, sources), offsetof(struct bt_config, n_sources), &source_shape},
         {"service", OBJECT, 0, 0, &service_shape},
         {"members", LIST, offsetof(struct bt_config, members), offsetof(struct bt_config, n_members), &member_shape},
         {"routers", LIST, offsetof(struct bt_config, routers), offsetof(struct bt_config, n_routers), &router_shape},
         {"keyIds", LIST, offsetof(struct bt_config, key_ids), offsetof(struct bt_config, n_key_ids), NULL}},
};

struct decoder {
    struct bt_json json;
    struct bt_ctl_error *error;
    char path[160]; // of the value being read
};

static bool refuse(struct decoder *d, const char *what, const char *detail)
{
    return bt_ctl_refuse(d->error, BT_CTL_INVALID_CONFIG, d->path, "%s%s", what, detail);
}

static bool syntax(struct decoder *d)
{
    return bt_ctl_refuse(d->error, BT_CTL_INVALID_CONFIG, NULL, "is not valid JSON: %s at byte %zu",
                         d->json.failed != NULL ? d->json.failed : "unexpected text", d->json.at);
}

// Checks that a value of the wanted kind comes next.
static bool expect(struct decoder *d, enum bt_json_kind want, const char *must)
{
    enum bt_json_kind got = bt_json_peek(&d->json);
    if (got == want) {
        return true;
    }
    if (got == BT_JSON_BAD) {
        bt_json_skip(&d->json, NULL, NULL); // makes the reader say what is wrong
        return syntax(d);
    }
    return refuse(d, must, bt_json_kind_name(got));
}

static bool decode_text(struct decoder *d, struct bt_config_text *out)
{
    if (!expect(d, BT_JSON_STRING, "must be a string; got ")) {
        return false;
    }
    if (!bt_json_string(&d->json, out->text, sizeof out->text, &out->len)) {
        return syntax(d);
    }
    if (out->len <= BT_CONFIG_TEXT_MAX && strlen(out->text) != out->len) {
        return refuse(d, "must not contain a zero byte", "");
    }
    return true;
}

static bool decode_integer(struct decoder *d, int64_t *out)
{
    const char *text;
    size_t len;
    char spelled[40];
    if (!expect(d, BT_JSON_NUMBER, "must be an integer; got ")) {
        return false;
    }
    if (!bt_json_number(&d->json, &text, &len)) {
        return syntax(d);
    }
    if (!bt_json_to_int(text, len, out)) {
        snprintf(spelled, sizeof spelled, "%.*s", len < 32 ? (int)len : 32, text);
        return refuse(d, "must be an integer; got ", spelled);
    }
    return true;
}

static bool decode_object(struct decoder *d, const struct shape *shape, char *base);

static bool grow(char **items, size_t *cap, size_t n, size_t size)
{
    if (n < *cap) {
        return true;
    }
    size_t more = *cap == 0 ? 8 : *cap * 2;
    char *bigger = realloc(*items, more * size);
    if (bigger == NULL) {
        return false;
    }
    memset(bigger + *cap * size, 0, (more - *cap) * size);
    *items = bigger;
    *cap = more;
    return true;
}

// Reads a list into *items; on failure what was read stays there for bt_config_free.
static bool decode_list(struct decoder *d, const struct shape *shape, char **items, size_t *n)
{
    size_t size = shape != NULL ? shape->size : sizeof(int64_t);
    size_t cap = 0;
    size_t stem = strlen(d->path);
    int more;
    if (!expect(d, BT_JSON_LIST, "must be a list; got ")) {
        return false;
    }
    if (!bt_json_enter(&d->json)) {
        return syntax(d);
    }
    while ((more = bt_json_item(&d->json)) == 1) {
        if (*n == BT_CONFIG_WORKERS_MAX) {
            return refuse(d, "must have at most 1024 entries", "");
        }
        if (!grow(items, &cap, *n, size)) {
            return bt_ctl_refuse(d->error, BT_CTL_INTERNAL, d->path, "out of memory");
        }
        char *item = *items + *n * size;
        snprintf(d->path + stem, sizeof d->path - stem, "[%zu]", *n);
        if (shape != NULL ? !decode_object(d, shape, item) : !decode_integer(d, (int64_t *)(void *)item)) {
            return false;
        }
        d->path[stem] = '\0';
        (*n)++;
    }
    return more == 0 || syntax(d);
}

static bool decode_field(struct decoder *d, const struct field *f, char *base)
{
    switch (f->kind) {
    case TEXT:
        return decode_text(d, (struct bt_config_text *)(void *)(base + f->offset));
    case INTEGER:
        return decode_integer(d, (int64_t *)(void *)(base + f->offset));
    case OBJECT:
        if (f->optional) {
            *(size_t *)(void *)(base + f->count_offset) = 1;
        }
        return decode_object(d, f->shape, base);
    case LIST:
        return decode_list(d, f->shape, (char **)(void *)(base + f->offset),
                           (size_t *)(void *)(base + f->count_offset));
    }
    return false;
}

static int field_by_name(const struct shape *shape, const char *name)
{
    for (unsigned i = 0; i < shape->n; i++) {
        if (strcmp(shape->fields[i].name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

// Puts ".name" behind the first `stem` bytes of the path.
static void go_to(struct decoder *d, size_t stem, const char *name)
{
    snprintf(d->path + stem, sizeof d->path - stem, "%s%s", stem != 0 ? "." : "", name);
}

static bool decode_object(struct decoder *d, const struct shape *shape, char *base)
{
    unsigned seen = 0;
    size_t stem = strlen(d->path);
    char key[64]; // longer than any known name; what is cut is unknown anyway
    int more;
    if (!expect(d, BT_JSON_OBJECT, "must be an object; got ")) {
        return false;
    }
    if (!bt_json_enter(&d->json)) {
        return syntax(d);
    }
    while ((more = bt_json_key(&d->json, key, sizeof key)) == 1) {
        int i = field_by_name(shape, key);
        go_to(d, stem, key);
        if (i < 0) {
            return refuse(d, "unknown field; remove it, or use a dataplane that knows it", "");
        }
        if (seen & (1u << i)) {
            return refuse(d, "occurs twice; keep one", "");
        }
        seen |= 1u << i;
        if (!decode_field(d, &shape->fields[i], base)) {
            return false;
        }
        d->path[stem] = '\0';
    }
    if (more != 0) {
        return syntax(d);
    }
    for (unsigned i = 0; i < shape->n; i++) {
        if (!(seen & (1u << i)) && !shape->fields[i].optional) {
            go_to(d, stem, shape->fields[i].name);
            return refuse(d, "is required", "");
        }
    }
    return true;
}

bool bt_config_decode(const char *text, size_t len, struct bt_config *c, struct bt_ctl_error *e)
{
    struct decoder d = {.error = e};
    bt_json_init(&d.json, text, len);
    if (!decode_object(&d, &document_shape, (char *)c)) {
        return false;
    }
    if (!bt_json_end(&d.json)) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_CONFIG, NULL,
                             "the document must end after its closing brace; found more at byte %zu", d.json.at);
    }
    return true;
}
