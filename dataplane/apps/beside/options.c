// SPDX-License-Identifier: Apache-2.0
// The option table of these programs.
#include "beside.h"

#include "io/mtu.h"

#include <string.h>

enum { ROWS = 11 };

static size_t make_table(const struct beside_kind *kind, struct beside_options *o, struct bt_cli_option t[ROWS])
{
    const struct bt_cli_option rows[] = {
        {"name", BT_CLI_TEXT_AT, &o->name, 0, 0, "NAME", "its name in the document, required"},
        {"address", BT_CLI_TEXT_AT, &o->address, 0, 0, "IP", "own address, instead of the document's"},
        {"mtu", BT_CLI_AUTO_U32, &o->mtu, BT_MTU_MIN, BT_MTU_MAX, "auto|BYTES",
         "IP MTU, the same on all nodes; auto reads it"},
        {"config", BT_CLI_TEXT, &o->config, 0, 0, "FILE", "document to start with"},
        {"config-cache", BT_CLI_TEXT, &o->config_cache, 0, 0, "FILE", "keep the last good document here"},
        {"key-dir", BT_CLI_TEXT, &o->key_dir, 0, 0, "DIR", "folder of key files, each named by its key id"},
        {"ctl", BT_CLI_TEXT, &o->ctl, 0, 0, "PATH", "control socket; empty for none"},
        {"alive", BT_CLI_TEXT, &o->alive, 0, 0, "PATH", "only ask who is behind this control socket if it runs"},
        {"log", BT_CLI_CHOICE, &o->log, 0, 0, "text|json", "form of the log lines on stderr"},
    };
    size_t n = sizeof rows / sizeof *rows;
    _Static_assert(sizeof rows / sizeof *rows < ROWS, "the table must fit, with an option of the kind's own");
    memcpy(t, rows, sizeof rows);
    if (kind->extra.name != NULL) {
        t[n] = kind->extra;
        t[n++].to = &o->extra;
    }
    return n;
}

enum bt_cli_result beside_options_read(int argc, char **argv, const struct beside_kind *kind, struct beside *b)
{
    struct beside_options *o = &b->opt;
    struct bt_cli_option table[ROWS];
    *o = (struct beside_options){.ctl = BT_CTL_DEFAULT_SOCKET};
    const struct bt_cli program = {kind->program, kind->summary, kind->epilogue, table, make_table(kind, o, table)};
    enum bt_cli_result result = bt_cli_parse(&program, argc, argv);
    if (result != BT_CLI_RUN || o->alive != NULL) {
        return result;
    }
    if (o->name == NULL || o->name[0] == '\0' || strlen(o->name) >= BT_GROUP_DOCUMENT_NAME) {
        bt_cli_error(&program, "name", "must be a name of 1..%u bytes; got \"%s\"", BT_GROUP_DOCUMENT_NAME - 1,
                     o->name != NULL ? o->name : "");
        return BT_CLI_EXIT_USAGE;
    }
    return bt_cli_own_address(&program, o->address, kind->word, &b->override) ? BT_CLI_RUN : BT_CLI_EXIT_USAGE;
}
