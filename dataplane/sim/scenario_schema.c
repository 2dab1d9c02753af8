// SPDX-License-Identifier: Apache-2.0
// The JSON Schema and the reference of scenario files, written from the tables the reader works by.
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "scenario_fields.h"

static void json_text(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s != '\0'; s++) {
        if (*s == '"' || *s == '\\') {
            fputc('\\', f);
        }
        fputc(*s, f);
    }
    fputc('"', f);
}

/* Canonical words only, or the other words too. */
static void words(FILE *f, const char *const *names, bool others, const char *between)
{
    bool any = false;
    for (size_t i = 0; names[i] != NULL; i++) {
        if (!others && strchr(names[i], '=') != NULL) {
            continue;
        }
        fprintf(f, "%s%.*s", any ? between : "", (int)strcspn(names[i], "="), names[i]);
        any = true;
    }
}

static void json_words(FILE *f, const char *const *names)
{
    fputs("{\"enum\": [\"", f);
    words(f, names, true, "\", \"");
    fputs("\"]}", f);
}

static bool whole(const struct sim_field *t)
{
    return t->type == SIM_F_U32 || t->type == SIM_F_U64 || (t->type == SIM_F_NUMBERS && t->scale > 0);
}

static void json_number(FILE *f, const struct sim_field *t)
{
    fprintf(f, "{\"type\": \"%s\", \"minimum\": %.15g, \"maximum\": %.15g}", whole(t) ? "integer" : "number", t->low,
            t->high);
}

/* "One, or a list from which the seed draws". */
static void json_open(FILE *f, const struct sim_field *t, void (*one)(FILE *, const struct sim_field *),
                      const char *bounds)
{
    fputs("\"anyOf\": [", f);
    one(f, t);
    fputs(", {\"type\": \"array\", \"items\": ", f);
    one(f, t);
    fprintf(f, ", %s}]", bounds);
}

static void json_name(FILE *f, const struct sim_field *t)
{
    json_words(f, t->names);
}

static void json_bool(FILE *f, const struct sim_field *t)
{
    (void)t;
    fputs("{\"type\": \"boolean\"}", f);
}

static void json_type(FILE *f, const struct sim_field *t)
{
    switch (t->type) {
    case SIM_F_BOOL:
        json_open(f, t, json_bool, "\"minItems\": 1");
        break;
    case SIM_F_NAME:
        json_open(f, t, json_name, "\"minItems\": 1");
        break;
    case SIM_F_TEXT:
        fprintf(f, "\"type\": [\"string\", \"number\"], \"maxLength\": %g", t->high - 1);
        if (t->names != NULL) {
            fputs(", \"enum\": [\"", f);
            words(f, t->names, true, "\", \"");
            fputs("\"]", f);
        }
        break;
    case SIM_F_NUMBERS:
    case SIM_F_NAMES:
        fprintf(f, "\"type\": \"array\", \"minItems\": 1, \"maxItems\": %d, \"items\": ", SIM_GRID_MAX);
        (t->type == SIM_F_NAMES ? json_name : json_number)(f, t);
        break;
    case SIM_F_ANY:
        fputs("\"type\": [\"string\", \"number\"]", f);
        break;
    default:
        json_open(f, t, json_number, "\"minItems\": 2, \"maxItems\": 2");
        break;
    }
}

/* "workers" of "workers", "mmpp" of "clients.mmpp"; NULL when it is not directly below `parent`. */
static const char *child_name(const char *path, const char *parent)
{
    size_t n = strlen(parent);
    if (strncmp(path, parent, n) != 0 || strlen(path) <= n || (n > 0 && path[n] != '.')) {
        return NULL;
    }
    path += n + (n > 0);
    return strchr(path, '.') == NULL ? path : NULL;
}

static void indent(FILE *f, unsigned depth)
{
    fprintf(f, "\n%*s", (int)(2 * depth), "");
}

static void json_object(FILE *f, const struct sim_section *c, unsigned depth);

static void json_child(FILE *f, const struct sim_section *c, const char *name, unsigned depth)
{
    json_text(f, name);
    fputs(": {\"description\": ", f);
    json_text(f, c->about);
    if (c->max > 0) {
        fprintf(f, ", \"type\": \"array\", \"maxItems\": %u, \"items\": {", c->max);
        json_object(f, c, depth + 1);
        fputs("}", f);
    } else {
        fputs(", ", f);
        json_object(f, c, depth + 1);
    }
    fputs("}", f);
}

static void json_required(FILE *f, const struct sim_section *c)
{
    const char *between = ", \"required\": [";
    bool any = false;
    for (size_t i = 0; i < c->fields; i++) {
        if (!c->field[i].required) {
            continue;
        }
        fputs(between, f);
        json_text(f, c->field[i].key);
        between = ", ";
        any = true;
    }
    if (any) {
        fputs("]", f);
    }
}

/* The inside of a schema object: type, properties, nothing else allowed. */
static void json_object(FILE *f, const struct sim_section *c, unsigned depth)
{
    fputs("\"type\": \"object\", \"additionalProperties\": false", f);
    json_required(f, c);
    fputs(", \"properties\": {", f);
    for (size_t i = 0; i < c->fields; i++) {
        const struct sim_field *t = &c->field[i];
        fputs(i > 0 ? "," : "", f);
        indent(f, depth);
        json_text(f, t->key);
        fputs(": {", f);
        json_type(f, t);
        if (t->about != NULL && *t->about != '\0') {
            fputs(", \"description\": ", f);
            json_text(f, t->about);
        }
        fputs("}", f);
    }
    for (size_t i = 0; i < sim_sections_n; i++) {
        const char *name = child_name(sim_sections[i].path, c->path);
        if (name == NULL || c->max > 0) {
            continue;
        }
        fputs(",", f);
        indent(f, depth);
        json_child(f, &sim_sections[i], name, depth);
    }
    indent(f, depth - 1);
    fputs("}", f);
}

void sim_schema_json(FILE *f)
{
    fputs("{\"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n \"title\": \"bobtail-sim scenario\",\n ",
          f);
    json_object(f, &sim_sections[0], 1);
    fputs("}\n", f);
}

/* --- reference ---------------------------------------------------------------------------------- */

static void range(FILE *f, const struct sim_field *t)
{
    switch (t->type) {
    case SIM_F_BOOL:
        fputs("true, false", f);
        break;
    case SIM_F_NAME:
    case SIM_F_NAMES:
        fputs(t->type == SIM_F_NAMES ? "list of " : "", f);
        words(f, t->names, false, ", ");
        break;
    case SIM_F_TEXT:
        if (t->names != NULL) {
            words(f, t->names, false, ", ");
        } else {
            fputs("text", f);
        }
        break;
    case SIM_F_ANY:
        fputs("text", f);
        break;
    default:
        if (t->type == SIM_F_NUMBERS) {
            fputs("list of ", f);
        }
        if (t->high - t->low > 1e17) {
            fputs("any number", f);
        } else {
            fprintf(f, "%.15g…%.15g", t->low, t->high);
        }
        break;
    }
}

static const char *word_at(const char *const *names, uint32_t i)
{
    return names[i];
}

static void standard(FILE *f, const struct sim_field *t, const void *at)
{
    const char *p = (const char *)at + t->offset;
    if (t->required) {
        fputs("required", f);
        return;
    }
    switch (t->type) {
    case SIM_F_U32:
        fprintf(f, "%u", *(const uint32_t *)(const void *)p);
        break;
    case SIM_F_U64:
        fprintf(f, "%llu", (unsigned long long)*(const uint64_t *)(const void *)p);
        break;
    case SIM_F_DOUBLE:
        if (*(const double *)(const void *)p > -1e299 && *(const double *)(const void *)p < 1e299) {
            fprintf(f, "%.15g", *(const double *)(const void *)p);
        }
        break;
    case SIM_F_NS:
        if (*(const uint64_t *)(const void *)p != UINT64_MAX) {
            fprintf(f, "%.15g", (double)*(const uint64_t *)(const void *)p / t->scale);
        }
        break;
    case SIM_F_BOOL:
        fputs(*(const bool *)(const void *)p ? "true" : "false", f);
        break;
    case SIM_F_NAME:
        fputs(word_at(t->names, *(const uint32_t *)(const void *)p), f);
        break;
    default:
        break;
    }
}

/* An item of a list as it is before anything was read. */
static const void *fresh(const struct sim_section *c, struct sim_scenario *s)
{
    if (c->max == 0) {
        return s;
    }
    void *at = (char *)s + c->items_at;
    memset(at, 0, c->item_size);
    if (c->begin != NULL) {
        c->begin(at, 0, 0);
    }
    return at;
}

void sim_schema_markdown(FILE *f)
{
    struct sim_scenario *s = calloc(1, sizeof *s);
    if (s == NULL) {
        abort();
    }
    sim_scenario_defaults(s);
    s->service.mean_ns /= 1e3; /* as the file writes it */
    for (size_t i = 0; i < sim_sections_n; i++) {
        const struct sim_section *c = &sim_sections[i];
        const char *name = *c->path != '\0' ? c->path : "the file";
        fprintf(f, "%s### %s%s\n\n%s\n\n| key | values | default | meaning |\n|---|---|---|---|\n", i > 0 ? "\n" : "",
                name, c->max > 0 ? "[]" : "", c->about);
        for (size_t k = 0; k < c->fields; k++) {
            fprintf(f, "| `%s` | ", c->field[k].key);
            range(f, &c->field[k]);
            fputs(" | ", f);
            standard(f, &c->field[k], fresh(c, s));
            fprintf(f, " | %s |\n", c->field[k].about);
        }
    }
    free(s);
}

int sim_command_schema(const struct sim_options *o)
{
    (o->markdown ? sim_schema_markdown : sim_schema_json)(stdout);
    return fflush(stdout) == 0 ? 0 : 2;
}
