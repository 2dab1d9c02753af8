// SPDX-License-Identifier: Apache-2.0
// Table-driven YAML reading: unknown, doubled and out-of-range fields are named with their line.
#include "yaml_reader.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"
#include "stream.h"

void sim_yaml_complain(struct sim_yaml *y, const yaml_node_t *at, const char *where, const char *fmt, ...)
{
    if (y->failed) {
        return;
    }
    y->failed = true;
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t line = at != NULL ? at->start_mark.line + 1 : 1, column = at != NULL ? at->start_mark.column + 1 : 1;
    snprintf(y->err, y->err_n, "%s:%zu:%zu: %s%s%s", y->file, line, column, where, *where != '\0' ? ": " : "", text);
}

static const char *text_of(const yaml_node_t *n)
{
    return n != NULL && n->type == YAML_SCALAR_NODE ? (const char *)n->data.scalar.value : NULL;
}

yaml_node_t *sim_yaml_get(struct sim_yaml *y, yaml_node_t *map, const char *key)
{
    if (map == NULL || map->type != YAML_MAPPING_NODE) {
        return NULL;
    }
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
        const char *k = text_of(yaml_document_get_node(y->doc, p->key));
        if (k != NULL && strcmp(k, key) == 0) {
            return yaml_document_get_node(y->doc, p->value);
        }
    }
    return NULL;
}

yaml_node_t *sim_yaml_item(struct sim_yaml *y, yaml_node_t *list, size_t i, const char *where)
{
    if (list == NULL) {
        return NULL;
    }
    if (list->type != YAML_SEQUENCE_NODE) {
        sim_yaml_complain(y, list, where, "must be a list");
        return NULL;
    }
    size_t n = (size_t)(list->data.sequence.items.top - list->data.sequence.items.start);
    return i < n ? yaml_document_get_node(y->doc, list->data.sequence.items.start[i]) : NULL;
}

static size_t list_length(const yaml_node_t *n)
{
    return (size_t)(n->data.sequence.items.top - n->data.sequence.items.start);
}

static void note_drawn(struct sim_yaml *y, const char *where, const char *value)
{
    if (y->drawn == NULL) {
        return;
    }
    size_t used = strlen(y->drawn);
    if (used + strlen(where) + strlen(value) + 3 > y->drawn_n) {
        return;
    }
    snprintf(y->drawn + used, y->drawn_n - used, "%s%s=%s", used > 0 ? " " : "", where, value);
}

static double number(struct sim_yaml *y, const yaml_node_t *n, const char *where, const struct sim_field *f)
{
    const char *s = text_of(n);
    char *end = NULL;
    errno = 0;
    double v = s != NULL ? strtod(s, &end) : 0;
    if (s == NULL || end == s || *end != '\0' || errno != 0 || !isfinite(v)) {
        sim_yaml_complain(y, n, where, "must be a number; got %.60s", s != NULL ? s : "a list or mapping");
        return f->low;
    }
    if (v < f->low || v > f->high) {
        sim_yaml_complain(y, n, where, "must be %g..%g; got %.40s", f->low, f->high, s);
        return f->low;
    }
    bool whole = f->type == SIM_F_U32 || f->type == SIM_F_U64;
    if (whole && v != floor(v)) {
        sim_yaml_complain(y, n, where, "must be a whole number; got %.60s", s);
    }
    return v;
}

/* A number, or [low, high] for "anything between, by seed". */
static double open_number(struct sim_yaml *y, yaml_node_t *n, const char *where, const struct sim_field *f)
{
    if (n->type != YAML_SEQUENCE_NODE) {
        return number(y, n, where, f);
    }
    if (list_length(n) != 2) {
        sim_yaml_complain(y, n, where, "an open number is written [low, high]");
        return f->low;
    }
    double lo = number(y, sim_yaml_item(y, n, 0, where), where, f);
    double hi = number(y, sim_yaml_item(y, n, 1, where), where, f);
    if (hi < lo) {
        sim_yaml_complain(y, n, where, "low bound %g is above high bound %g", lo, hi);
    }
    double u = y->draw != NULL ? sim_uniform(y->draw) : 0.5;
    bool whole = f->type == SIM_F_U32 || f->type == SIM_F_U64;
    double v = whole ? floor(lo + u * (hi - lo + 1)) : lo + u * (hi - lo);
    if (v > hi) {
        v = hi;
    }
    char text[32];
    snprintf(text, sizeof text, "%.4g", v);
    note_drawn(y, where, text);
    return v;
}

/* A word, or [word, word, …] for "one of them, by seed". */
static const char *open_word(struct sim_yaml *y, yaml_node_t *n, const char *where)
{
    const char *s = text_of(n);
    if (s != NULL) {
        return s;
    }
    if (n->type != YAML_SEQUENCE_NODE || list_length(n) == 0) {
        sim_yaml_complain(y, n, where, "must be a word or a list of words");
        return "";
    }
    uint32_t i = y->draw != NULL ? sim_below(y->draw, (uint32_t)list_length(n)) : 0;
    s = text_of(sim_yaml_item(y, n, i, where));
    if (s == NULL) {
        sim_yaml_complain(y, n, where, "must be a list of words");
        return "";
    }
    note_drawn(y, where, s);
    return s;
}

/* The place of a word, UINT32_MAX when it is none of them. */
static uint32_t look_up(const char *const *names, const char *s)
{
    size_t n = strlen(s);
    for (uint32_t i = 0; names[i] != NULL; i++) {
        const char *same = strchr(names[i], '=');
        if (same == NULL && strcmp(names[i], s) == 0) {
            return i;
        }
        if (same != NULL && (size_t)(same - names[i]) == n && strncmp(names[i], s, n) == 0) {
            return look_up(names, same + 1);
        }
    }
    return UINT32_MAX;
}

static uint32_t name_index(struct sim_yaml *y, const yaml_node_t *n, const char *where, const char *const *names,
                           const char *s)
{
    uint32_t at = look_up(names, s);
    if (at != UINT32_MAX) {
        return at;
    }
    char all[240] = "";
    for (uint32_t i = 0; names[i] != NULL; i++) {
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%.*s", used > 0 ? ", " : "", (int)strcspn(names[i], "="), names[i]);
    }
    sim_yaml_complain(y, n, where, "must be one of %s; got %.60s", all, s);
    return 0;
}

static void list_of(struct sim_yaml *y, yaml_node_t *n, const char *where, const struct sim_field *f,
                    struct sim_list *out)
{
    yaml_node_t *item;
    for (size_t i = 0; (item = sim_yaml_item(y, n, i, where)) != NULL; i++) {
        if (i == SIM_GRID_MAX) {
            sim_yaml_complain(y, item, where, "at most %d values", SIM_GRID_MAX);
            return;
        }
        const struct sim_field one = {
            f->key, f->scale > 0 ? SIM_F_U32 : SIM_F_DOUBLE, 0, f->low, f->high, 0, NULL, NULL, false};
        const char *s = text_of(item);
        if (f->type == SIM_F_NAMES && s == NULL) {
            sim_yaml_complain(y, item, where, "must be a list of words");
        }
        out->v[i] = f->type == SIM_F_NUMBERS ? number(y, item, where, &one)
                    : s != NULL              ? name_index(y, item, where, f->names, s)
                                             : 0;
        out->n = (uint32_t)i + 1;
    }
    if (out->n == 0) {
        sim_yaml_complain(y, n, where, "must be a list of one value or more");
    }
}

static bool truth(struct sim_yaml *y, yaml_node_t *n, const char *where)
{
    const char *s = open_word(y, n, where);
    if (strcmp(s, "true") != 0 && strcmp(s, "false") != 0) {
        sim_yaml_complain(y, n, where, "must be true or false; got %.60s", s);
    }
    return strcmp(s, "true") == 0;
}

static void store(struct sim_yaml *y, yaml_node_t *n, const char *where, const struct sim_field *f, void *out)
{
    char *p = (char *)out + f->offset;
    const char *s = NULL;
    switch (f->type) {
    case SIM_F_U32:
        *(uint32_t *)(void *)p = (uint32_t)open_number(y, n, where, f);
        break;
    case SIM_F_U64:
        *(uint64_t *)(void *)p = (uint64_t)open_number(y, n, where, f);
        break;
    case SIM_F_DOUBLE:
        *(double *)(void *)p = open_number(y, n, where, f);
        break;
    case SIM_F_NS:
        *(uint64_t *)(void *)p = (uint64_t)(open_number(y, n, where, f) * f->scale + 0.5);
        break;
    case SIM_F_BOOL:
        *(bool *)(void *)p = truth(y, n, where);
        break;
    case SIM_F_NAME:
        *(uint32_t *)(void *)p = name_index(y, n, where, f->names, open_word(y, n, where));
        break;
    case SIM_F_NUMBERS:
    case SIM_F_NAMES:
        list_of(y, n, where, f, (struct sim_list *)(void *)p);
        break;
    case SIM_F_ANY:
        break;
    case SIM_F_TEXT:
        s = text_of(n);
        if (s == NULL || strlen(s) >= (size_t)f->high) {
            sim_yaml_complain(y, n, where, "must be text of fewer than %g bytes", f->high);
        } else {
            if (f->names != NULL) {
                name_index(y, n, where, f->names, s);
            }
            memcpy(p, s, strlen(s) + 1);
        }
        break;
    }
}

static bool among(const char *const *words, const char *w)
{
    for (size_t i = 0; words != NULL && words[i] != NULL; i++) {
        if (strcmp(words[i], w) == 0) {
            return true;
        }
    }
    return false;
}

static void unknown_key(struct sim_yaml *y, const yaml_node_t *key, const char *path, const struct sim_known *known)
{
    char all[600] = "";
    for (size_t i = 0; i < known->n; i++) {
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", used > 0 ? ", " : "", known->field[i].key);
    }
    for (size_t i = 0; known->sections != NULL && known->sections[i] != NULL; i++) {
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", used > 0 ? ", " : "", known->sections[i]);
    }
    sim_yaml_complain(y, key, path, "unknown field; known here: %s", all);
}

static void read_pair(struct sim_yaml *y, yaml_node_t *map, const yaml_node_pair_t *p, const char *where,
                      const struct sim_known *known, void *out)
{
    yaml_node_t *key = yaml_document_get_node(y->doc, p->key), *value = yaml_document_get_node(y->doc, p->value);
    const char *k = text_of(key);
    char path[160];
    snprintf(path, sizeof path, "%s%s%.60s", where, *where != '\0' ? "." : "", k != NULL ? k : "?");
    if (k == NULL || sim_yaml_get(y, map, k) != value) {
        sim_yaml_complain(y, key, path, "given twice, or not a word");
        return;
    }
    size_t i = 0;
    while (i < known->n && strcmp(known->field[i].key, k) != 0) {
        i++;
    }
    if (i < known->n) {
        store(y, value, path, &known->field[i], out);
    } else if (!among(known->sections, k)) {
        unknown_key(y, key, path, known);
    }
}

void sim_yaml_fields(struct sim_yaml *y, yaml_node_t *map, const char *where, const struct sim_known *known, void *out)
{
    if (map == NULL) {
        return;
    }
    if (map->type != YAML_MAPPING_NODE) {
        sim_yaml_complain(y, map, where, "must be a mapping");
        return;
    }
    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
        read_pair(y, map, p, where, known, out);
    }
    for (size_t i = 0; i < known->n; i++) {
        if (known->field[i].required && sim_yaml_get(y, map, known->field[i].key) == NULL) {
            sim_yaml_complain(y, map, where, "%s is missing", known->field[i].key);
        }
    }
}

static yaml_document_t *load(yaml_parser_t *parser, const char *path, char *err, size_t err_n)
{
    yaml_document_t *doc = calloc(1, sizeof *doc);
    if (doc == NULL) {
        abort();
    }
    bool loaded = yaml_parser_load(parser, doc);
    if (loaded && yaml_document_get_root_node(doc) != NULL) {
        return doc;
    }
    snprintf(err, err_n, "%s:%zu:%zu: %s", path, parser->problem_mark.line + 1, parser->problem_mark.column + 1,
             parser->problem != NULL ? parser->problem : "empty file");
    if (loaded) {
        yaml_document_delete(doc);
    }
    free(doc);
    return NULL;
}

yaml_document_t *sim_yaml_open(const char *path, char *err, size_t err_n)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        snprintf(err, err_n, "%s: %s", path, strerror(errno));
        return NULL;
    }
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) {
        abort();
    }
    yaml_parser_set_input_file(&parser, f);
    yaml_document_t *doc = load(&parser, path, err, err_n);
    yaml_parser_delete(&parser);
    fclose(f);
    return doc;
}

yaml_document_t *sim_yaml_read(const char *path, const char *text, size_t n, char *err, size_t err_n)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) {
        abort();
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
    yaml_document_t *doc = load(&parser, path, err, err_n);
    yaml_parser_delete(&parser);
    return doc;
}
