// SPDX-License-Identifier: Apache-2.0
// Walking a YAML document with complaints that name file, line and field.
#ifndef BOBTAIL_SIM_YAML_READER_H
#define BOBTAIL_SIM_YAML_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yaml.h>

#include "base/rng.h"

/* One open document being read. The first complaint is kept; reading goes on harmlessly. */
struct sim_yaml {
    const char *file; /* as messages name it */
    yaml_document_t *doc;
    struct bt_rng *draw; /* closes open values: [low, high] and [name, name, …]; NULL = midpoint, first */
    char *drawn;         /* text list of what was drawn, NULL = not wanted */
    size_t drawn_n;
    char *err;
    size_t err_n;
    bool failed;
};

enum sim_field_type {
    SIM_F_U32,
    SIM_F_U64,
    SIM_F_DOUBLE,
    SIM_F_NS,
    SIM_F_BOOL,
    SIM_F_NAME,    /* one of names; "other=this" in names is another word for this */
    SIM_F_TEXT,    /* fewer than `high` bytes */
    SIM_F_NUMBERS, /* struct sim_list; scale 1: whole ones */
    SIM_F_NAMES,   /* struct sim_list of indexes into names */
    SIM_F_ANY      /* not read */
};

/* One allowed key of a mapping and where its value goes. */
struct sim_field {
    const char *key;
    enum sim_field_type type;
    size_t offset;
    double low, high;         /* allowed range, in the unit of the file */
    double scale;             /* SIM_F_NS: ns per unit of the file */
    const char *const *names; /* SIM_F_NAME: NULL-terminated */
    const char *about;        /* for the reference */
    bool required;
};

/* Prints "FILE:LINE:COLUMN: where: message" into y->err unless something was wrong before. */
void sim_yaml_complain(struct sim_yaml *y, const yaml_node_t *at, const char *where, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* What a mapping may hold: scalars by the table, and keys that are left to the caller (NULL-terminated, or NULL). */
struct sim_known {
    const struct sim_field *field;
    size_t n;
    const char *const *sections;
};

/* Reads a mapping's scalars into out. */
void sim_yaml_fields(struct sim_yaml *y, yaml_node_t *map, const char *where, const struct sim_known *known, void *out);
/* The value of a key, NULL when absent. */
yaml_node_t *sim_yaml_get(struct sim_yaml *y, yaml_node_t *map, const char *key);
/* The i-th item of a list, NULL past the end; complains when the node is no list. */
yaml_node_t *sim_yaml_item(struct sim_yaml *y, yaml_node_t *list, size_t i, const char *where);
/* Reads one file; NULL with a message. Free with yaml_document_delete and free. */
yaml_document_t *sim_yaml_open(const char *path, char *err, size_t err_n);
/* The same of n bytes in memory. */
yaml_document_t *sim_yaml_read(const char *path, const char *text, size_t n, char *err, size_t err_n);

#endif
