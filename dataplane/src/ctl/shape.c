// SPDX-License-Identifier: Apache-2.0
// See shape.h.
#include "ctl/shape.h"

#include "ctl/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = 64, NUMBER_MAX = 48, WORDS_MAX = 256 };

struct bt_shape_reader {
    struct bt_json json;
    const char *code;
    struct bt_ctl_error *error;
    char path[160];            // of the value being read
    bool faulty;               // a value is not what it must be
    struct bt_ctl_error fault; // the first of these
};

// Of form: nothing behind it is read.
static bool refuse(struct bt_shape_reader *r, const char *what, const char *detail)
{
    return bt_ctl_refuse(r->error, r->code, r->path, "%s%s", what, detail);
}

static bool syntax(struct bt_shape_reader *r)
{
    return bt_ctl_refuse(r->error, r->code, NULL, "is not valid JSON: %s at byte %zu",
                         r->json.failed != NULL ? r->json.failed : "unexpected text", r->json.at);
}

void bt_shape_refuse(struct bt_shape_reader *r, const char *below, const char *format, ...)
{
    char path[sizeof r->path + 48], message[sizeof r->fault.message];
    va_list args;
    if (r->faulty) {
        return;
    }
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    snprintf(path, sizeof path, "%s%s", r->path, below);
    bt_ctl_refuse(&r->fault, r->code, path, "%s", message);
    r->faulty = true;
}

// Puts ".name" behind the first `stem` bytes of the path.
static void go_to(struct bt_shape_reader *r, size_t stem, const char *name)
{
    snprintf(r->path + stem, sizeof r->path - stem, "%s%s", stem != 0 ? "." : "", name);
}

// Checks that a value of the wanted kind comes next.
static bool expect(struct bt_shape_reader *r, enum bt_json_kind want, const char *must)
{
    enum bt_json_kind got = bt_json_peek(&r->json);
    if (got == want) {
        return true;
    }
    if (got == BT_JSON_BAD) {
        bt_json_skip(&r->json, NULL, NULL); // makes the reader say what is wrong
        return syntax(r);
    }
    return refuse(r, must, bt_json_kind_name(got));
}

static void store(const struct bt_shape_place *to, char *base, int64_t v)
{
    switch (to->size) {
    case 1:
        memcpy(base + to->at, &(uint8_t){(uint8_t)v}, 1);
        break;
    case 2:
        memcpy(base + to->at, &(uint16_t){(uint16_t)v}, 2);
        break;
    case 4:
        memcpy(base + to->at, &(uint32_t){(uint32_t)v}, 4);
        break;
    case 8:
        memcpy(base + to->at, &v, 8);
        break;
    default: // nobody asks
        break;
    }
}

// --- single values

static bool within(struct bt_shape_reader *r, const struct bt_shape_field *f, double v, const char *spelled)
{
    if ((f->min == 0 && f->max == 0) || (v >= f->min && v <= f->max)) {
        return true;
    }
    bt_shape_refuse(r, "", "must be %.15g..%.15g; got %s", f->min, f->max, spelled);
    return false;
}

// The text of a number, as it is written; false: there is none.
static bool spelling(struct bt_shape_reader *r, const char *must, char out[NUMBER_MAX], const char **text, size_t *len)
{
    if (!expect(r, BT_JSON_NUMBER, must)) {
        return false;
    }
    if (!bt_json_number(&r->json, text, len)) {
        return syntax(r);
    }
    snprintf(out, NUMBER_MAX, "%.*s", *len < NUMBER_MAX ? (int)*len : NUMBER_MAX - 1, *text);
    return true;
}

static bool read_whole(struct bt_shape_reader *r, const struct bt_shape_field *f, char *base)
{
    static const char must[] = "must be an integer; got ";
    char spelled[NUMBER_MAX];
    const char *text;
    size_t len;
    int64_t v;
    if (!spelling(r, must, spelled, &text, &len)) {
        return false;
    }
    if (!bt_json_to_int(text, len, &v)) {
        return refuse(r, must, spelled);
    }
    if (within(r, f, (double)v, spelled)) {
        store(&f->to, base, v);
    }
    return true;
}

static bool read_number(struct bt_shape_reader *r, const struct bt_shape_field *f, char *base)
{
    char spelled[NUMBER_MAX];
    const char *text;
    size_t len;
    if (!spelling(r, "must be a number; got ", spelled, &text, &len)) {
        return false;
    }
    if (len >= sizeof spelled) {
        return refuse(r, "must be a number of fewer digits; got ", spelled);
    }
    double v = strtod(spelled, NULL);
    if (within(r, f, v, spelled)) {
        memcpy(base + f->to.at, &v, sizeof v);
    }
    return true;
}

static bool read_truth(struct bt_shape_reader *r, const struct bt_shape_field *f, char *base)
{
    bool v;
    if (!expect(r, BT_JSON_BOOLEAN, "must be true or false; got ")) {
        return false;
    }
    if (!bt_json_boolean(&r->json, &v)) {
        return syntax(r);
    }
    store(&f->to, base, v);
    return true;
}

// Its whole length may be beyond cap - 1: then the end is missing in buf.
static bool read_text(struct bt_shape_reader *r, char *buf, size_t cap, size_t *len)
{
    if (!expect(r, BT_JSON_STRING, "must be a string; got ")) {
        return false;
    }
    if (!bt_json_string(&r->json, buf, cap, len)) {
        return syntax(r);
    }
    return *len >= cap || strlen(buf) == *len || refuse(r, "must not contain a zero byte", "");
}

static bool fits(struct bt_shape_reader *r, size_t len, size_t cap)
{
    if (len >= cap) {
        bt_shape_refuse(r, "", "must have at most %zu bytes; got %zu", cap - 1, len);
    }
    return len < cap;
}

static bool read_kept(struct bt_shape_reader *r, const struct bt_shape_field *f, char *base)
{
    size_t len;
    if (!read_text(r, base + f->to.at, f->to.size, &len)) {
        return false;
    }
    if (fits(r, len, f->to.size) && (double)len < f->min) {
        bt_shape_refuse(r, "", "must not be empty");
    }
    return true;
}

static bool read_parsed(struct bt_shape_reader *r, const struct bt_shape_field *f, char *base)
{
    char text[BT_SHAPE_TEXT_MAX];
    size_t len;
    if (!read_text(r, text, sizeof text, &len)) {
        return false;
    }
    if (fits(r, len, sizeof text)) {
        const char *must = f->parse(text, base + f->to.at);
        if (must != NULL) {
            bt_shape_refuse(r, "", "%s; got \"%.80s\"", must, text);
        }
    }
    return true;
}

const char *bt_shape_words(const char *const *words, char *buf, size_t cap)
{
    size_t at = 0;
    buf[0] = '\0';
    for (size_t i = 0; words[i] != NULL && at < cap; i++) {
        at += (size_t)snprintf(buf + at, cap - at, "%s%s", i > 0 ? ", " : "", words[i]);
    }
    return buf;
}

static bool read_word(struct bt_shape_reader *r, const struct bt_shape_field *f, char *base)
{
    char text[KEY_MAX], all[WORDS_MAX];
    size_t len;
    if (!read_text(r, text, sizeof text, &len)) {
        return false;
    }
    for (unsigned i = 0; f->words[i] != NULL; i++) {
        if (len < sizeof text && strcmp(text, f->words[i]) == 0) {
            store(&f->to, base, f->first_word + i);
            return true;
        }
    }
    bt_shape_refuse(r, "", "must be one of %s; got \"%s\"", bt_shape_words(f->words, all, sizeof all), text);
    return true;
}

// --- what holds other values

static bool read_value(struct bt_shape_reader *r, const struct bt_shape_field *f, char *base);

static size_t size_of_item(const struct bt_shape_field *item)
{
    return item->kind == BT_SHAPE_OBJECT ? item->shape->size : item->to.size;
}

// Room for one more item of a list; fresh ones are zeroes.
static char *one_more(struct bt_shape_reader *r, const struct bt_shape_field *f, char *base, size_t n, size_t *room)
{
    size_t size = size_of_item(f->item);
    char *items;
    if (f->kind == BT_SHAPE_ARRAY) {
        return base + f->to.at + n * size;
    }
    memcpy(&items, base + f->to.at, sizeof items);
    if (n == *room) {
        size_t more = *room == 0 ? 8 : 2 * *room;
        char *bigger = realloc(items, more * size);
        if (bigger == NULL) {
            bt_ctl_refuse(r->error, BT_CTL_INTERNAL, r->path, "out of memory");
            return NULL;
        }
        memset(bigger + n * size, 0, (more - n) * size);
        *room = more;
        items = bigger;
        memcpy(base + f->to.at, &items, sizeof items);
    }
    return items + n * size;
}

static bool read_list(struct bt_shape_reader *r, const struct bt_shape_field *f, char *base)
{
    size_t n = 0, room = 0, stem = strlen(r->path);
    int more;
    if (!expect(r, BT_JSON_LIST, "must be a list; got ")) {
        return false;
    }
    if (!bt_json_enter(&r->json)) {
        return syntax(r);
    }
    while ((more = bt_json_item(&r->json)) == 1) {
        if ((double)n >= f->max) {
            return bt_ctl_refuse(r->error, r->code, r->path, "must have at most %.0f entries", f->max);
        }
        char *item = one_more(r, f, base, n, &room);
        if (item == NULL) {
            return false;
        }
        snprintf(r->path + stem, sizeof r->path - stem, "[%zu]", n);
        store(&f->count, base, (int64_t)++n);
        if (!read_value(r, f->item, item)) {
            return false;
        }
        r->path[stem] = '\0';
    }
    if (more == 0 && (double)n < f->min) {
        bt_shape_refuse(r, "", "must have at least %.0f %s", f->min, f->min > 1 ? "entries" : "entry");
    }
    store(&f->count, base, (int64_t)n);
    return more == 0 || syntax(r);
}

static int field_by_name(const struct bt_shape *shape, const char *name)
{
    for (unsigned i = 0; i < shape->n; i++) {
        if (strcmp(shape->fields[i].name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static bool read_member(struct bt_shape_reader *r, const struct bt_shape *shape, const char *key, char *base,
                        uint64_t *seen)
{
    int i = field_by_name(shape, key);
    if (i < 0) {
        return shape->open ? bt_json_skip(&r->json, NULL, NULL) || syntax(r)
                           : refuse(r, "unknown field; remove it, or use a dataplane that knows it", "");
    }
    if ((*seen & UINT64_C(1) << i) != 0) {
        return refuse(r, "occurs twice; keep one", "");
    }
    *seen |= UINT64_C(1) << i;
    store(&shape->fields[i].given, base, 1);
    return read_value(r, &shape->fields[i], base);
}

static bool missing(struct bt_shape_reader *r, const struct bt_shape_field *f)
{
    char all[WORDS_MAX];
    return f->kind == BT_SHAPE_WORD ? refuse(r, "is required: one of ", bt_shape_words(f->words, all, sizeof all))
                                    : refuse(r, "is required", "");
}

static bool read_object(struct bt_shape_reader *r, const struct bt_shape *shape, char *base)
{
    uint64_t seen = 0;
    size_t stem = strlen(r->path);
    char key[KEY_MAX]; // longer than any known name; what is cut is unknown anyway
    int more;
    if (!expect(r, BT_JSON_OBJECT, "must be an object; got ")) {
        return false;
    }
    if (!bt_json_enter(&r->json)) {
        return syntax(r);
    }
    while ((more = bt_json_key(&r->json, key, sizeof key)) == 1) {
        go_to(r, stem, key);
        if (!read_member(r, shape, key, base, &seen)) {
            return false;
        }
        r->path[stem] = '\0';
    }
    if (more != 0) {
        return syntax(r);
    }
    for (unsigned i = 0; i < shape->n; i++) {
        if ((seen & UINT64_C(1) << i) == 0 && shape->fields[i].required) {
            go_to(r, stem, shape->fields[i].name);
            return missing(r, &shape->fields[i]);
        }
    }
    return true;
}

static bool read_kind(struct bt_shape_reader *r, const struct bt_shape_field *f, char *base)
{
    switch (f->kind) {
    case BT_SHAPE_TEXT:
        return read_kept(r, f, base);
    case BT_SHAPE_WHOLE:
        return read_whole(r, f, base);
    case BT_SHAPE_NUMBER:
        return read_number(r, f, base);
    case BT_SHAPE_TRUTH:
        return read_truth(r, f, base);
    case BT_SHAPE_WORD:
        return read_word(r, f, base);
    case BT_SHAPE_PARSED:
        return read_parsed(r, f, base);
    case BT_SHAPE_OBJECT:
        return read_object(r, f->shape, base + f->to.at);
    case BT_SHAPE_LIST:
    case BT_SHAPE_ARRAY:
        return read_list(r, f, base);
    case BT_SHAPE_SKIPPED:
        break;
    }
    return bt_json_skip(&r->json, NULL, NULL) || syntax(r);
}

static bool read_value(struct bt_shape_reader *r, const struct bt_shape_field *f, char *base)
{
    if (!read_kind(r, f, base)) {
        return false;
    }
    if (f->check != NULL && !r->faulty) {
        f->check(r, base);
    }
    return true;
}

bool bt_shape_read(const struct bt_shape *shape, void *into, const char *text, size_t len, const char *code,
                   struct bt_ctl_error *e)
{
    struct bt_shape_reader r = {.code = code, .error = e};
    bt_json_init(&r.json, text, len);
    if (!read_object(&r, shape, into)) {
        return false;
    }
    if (!bt_json_end(&r.json)) {
        return bt_ctl_refuse(e, code, NULL, "the document must end after its closing brace; found more at byte %zu",
                             r.json.at);
    }
    if (r.faulty) {
        *e = r.fault;
    }
    return !r.faulty;
}
