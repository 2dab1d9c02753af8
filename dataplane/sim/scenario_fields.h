// SPDX-License-Identifier: Apache-2.0
// The vocabulary of scenario files as data: the reader, the JSON Schema and the reference are made from these tables.
#ifndef BOBTAIL_SIM_SCENARIO_FIELDS_H
#define BOBTAIL_SIM_SCENARIO_FIELDS_H

#include <stdio.h>

#include "scenario.h"
#include "yaml_reader.h"

/* A mapping of the file, or a list of mappings. */
struct sim_section {
    const char *path; /* "workers", "clients.mmpp"; "" is the file itself */
    const struct sim_field *field;
    size_t fields;
    const char *about;
    /* Lists only: where the items and their number go, and what an item is before and after it was read. */
    uint32_t max; /* 0: a mapping, fields straight into the scenario */
    size_t items_at, item_size, count_at;
    void (*begin)(void *item, uint32_t i, int line);
    void (*end)(void *item);
};

extern const struct sim_section sim_sections[];
extern const size_t sim_sections_n;

/* Writes the JSON Schema (draft 2020-12), or the reference as a Markdown table per section. */
void sim_schema_json(FILE *f);
void sim_schema_markdown(FILE *f);

#endif
