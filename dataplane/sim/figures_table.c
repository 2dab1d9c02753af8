// SPDX-License-Identifier: Apache-2.0
// Reading the figure table.
#include "figures.h"

#include <stdio.h>
#include <stdlib.h>

#include "policy_command.h"
#include "router/router_config.h"
#include "router/words.h"
#include "yaml_reader.h"

static const char *const short_policy[] = {"jbsq", "jsq", "p2c", "rr", "random"};
static const char *const short_discipline[] = {"sjf", "edf", "cscq", "ps", "directps"};
static const char *const same_names[] = {"central", "JSQ", NULL};
const char *const sim_figure_dists[] = {"deterministic", "exponential", "bimodal1", "bimodal2", NULL};

#define AT(m) offsetof(struct sim_cell, m)
static const struct sim_field cell_fields[] = {
    {"policy", SIM_F_NAME, AT(policy), 0, 0, 0, bt_router_policy_words},
    {"n", SIM_F_U32, AT(n), 1, 64, 0, NULL},
    {"distribution", SIM_F_NAME, AT(dist), 0, 0, 0, sim_figure_dists},
    {"load", SIM_F_DOUBLE, AT(load), 0.01, 0.99, 0, NULL},
    {"p99", SIM_F_DOUBLE, AT(p99), 0, 1e6, 0, NULL},
    {"tolerance", SIM_F_DOUBLE, AT(tolerance), 0.001, 1, 0, NULL},
    {"requests", SIM_F_U64, AT(requests), 1000, 1e8, 0, NULL},
};
static const struct sim_field saturation_fields[] = {
    {"n", SIM_F_U32, AT(n), 1, 64, 0, NULL},
    {"dispatchMicroseconds", SIM_F_DOUBLE, AT(dispatch_us), 0, 1e6, 0, NULL},
    {"feedbackMicroseconds", SIM_F_DOUBLE, AT(feedback_us), 0, 1e6, 0, NULL},
    {"requests", SIM_F_U64, AT(requests), 1000, 1e8, 0, NULL},
};
static const struct sim_field same_fields[] = {
    {"policy", SIM_F_NAME, AT(policy), 0, 0, 0, bt_router_policy_words},
    {"n", SIM_F_U32, AT(n), 1, 64, 0, NULL},
    {"distribution", SIM_F_NAME, AT(dist), 0, 0, 0, sim_figure_dists},
    {"load", SIM_F_DOUBLE, AT(load), 0.01, 0.99, 0, NULL},
    {"as", SIM_F_NAME, AT(like_policy), 0, 0, 0, same_names},
    {"requests", SIM_F_U64, AT(requests), 1000, 1e8, 0, NULL},
};
static const struct sim_field discipline_fields[] = {
    {"discipline", SIM_F_NAME, AT(discipline), 0, 0, 0, sim_policy_kinds + SIM_POLICY_SJF},
    {"workers", SIM_F_U32, AT(workers), 1, 64, 0, NULL},
    {"distribution", SIM_F_NAME, AT(dist), 0, 0, 0, sim_figure_dists},
    {"load", SIM_F_DOUBLE, AT(load), 0.01, 0.99, 0, NULL},
    {"p99", SIM_F_DOUBLE, AT(p99), 0, 1e6, 0, NULL},
    {"tolerance", SIM_F_DOUBLE, AT(tolerance), 0.001, 1, 0, NULL},
    {"requests", SIM_F_U64, AT(requests), 1000, 1e8, 0, NULL},
};
#undef AT

static void read_list(struct sim_yaml *y, const char *section, enum sim_cell_kind what, const struct sim_field *fields,
                      size_t n, struct sim_figures *out)
{
    yaml_node_t *list = sim_yaml_get(y, yaml_document_get_root_node(y->doc), section), *item;
    for (size_t i = 0; (item = sim_yaml_item(y, list, i, section)) != NULL; i++) {
        char where[48];
        snprintf(where, sizeof where, "%s[%zu]", section, i);
        if (out->cells == SIM_CELLS_MAX) {
            sim_yaml_complain(y, item, where, "at most %d rows", SIM_CELLS_MAX);
            return;
        }
        struct sim_cell *c = &out->cell[out->cells++];
        *c =
            (struct sim_cell){.what = what, .n = 64, .workers = 16, .load = 0.5, .tolerance = 0.05, .requests = 100000};
        sim_yaml_fields(y, item, where, &(struct sim_known){fields, n, NULL}, c);
        c->late = c->what == SIM_CELL_PLAIN && c->load > 0.9;
    }
}

int sim_figures_read(const char *path, struct sim_figures *out)
{
    char err[400];
    yaml_document_t *doc = sim_yaml_open(path, err, sizeof err);
    if (doc != NULL) {
        static const char *const sections[] = {"about", "cells", "saturation", "same", "disciplines", NULL};
        struct sim_yaml y = {.file = path, .doc = doc, .err = err, .err_n = sizeof err};
        sim_yaml_fields(&y, yaml_document_get_root_node(doc), "", &(struct sim_known){NULL, 0, sections}, NULL);
        read_list(&y, "cells", SIM_CELL_PLAIN, cell_fields, sizeof cell_fields / sizeof cell_fields[0], out);
        read_list(&y, "saturation", SIM_CELL_SATURATION, saturation_fields,
                  sizeof saturation_fields / sizeof saturation_fields[0], out);
        read_list(&y, "same", SIM_CELL_SAME, same_fields, sizeof same_fields / sizeof same_fields[0], out);
        read_list(&y, "disciplines", SIM_CELL_DISCIPLINE, discipline_fields,
                  sizeof discipline_fields / sizeof discipline_fields[0], out);
        bool ok = !y.failed && out->cells > 0;
        if (!y.failed && out->cells == 0) {
            snprintf(err, sizeof err, "%s: no cells", path);
        }
        yaml_document_delete(doc);
        free(doc);
        if (ok) {
            return 0;
        }
    }
    fprintf(stderr, "bobtail-sim: %s\n", err);
    return -1;
}

void sim_cell_name(const struct sim_cell *c, char *out, size_t n)
{
    char depth[8] = "";
    if (c->policy == BT_ROUTER_JBSQ) {
        snprintf(depth, sizeof depth, "%u", c->n);
    }
    if (c->what == SIM_CELL_SATURATION) {
        snprintf(out, n, "saturation_n%u_delay%g", c->n, (c->dispatch_us + c->feedback_us) / 1e3);
    } else if (c->what == SIM_CELL_DISCIPLINE) {
        snprintf(out, n, "%s%s_%s_%g", short_discipline[c->discipline], c->workers == 1 ? "1" : "",
                 sim_figure_dists[c->dist], c->load);
    } else {
        snprintf(out, n, "%s%s%s_%s_%g%s%s", c->what == SIM_CELL_SAME ? "same_" : "", short_policy[c->policy], depth,
                 sim_figure_dists[c->dist], c->load, c->what == SIM_CELL_SAME ? "_as_" : "",
                 c->what == SIM_CELL_SAME ? same_names[c->like_policy] : "");
    }
}
