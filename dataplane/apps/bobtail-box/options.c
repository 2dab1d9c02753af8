// SPDX-License-Identifier: Apache-2.0
// The option table of bobtail-box.
#include "box_app.h"

#include "io/mtu.h"

#include <stdio.h>
#include <string.h>

static const char epilogue[] =
    "Addresses, members and the limit come from the group's document of kind ReplicationGroup, which must have "
    "protocol\n"
    "HovercRaft and name this box: --config, or a sidecar over the control socket. A box keeps nothing: after a start "
    "it\n"
    "is silent for a moment, and then lets few requests in at first.\n"
    "Exit status: 0 stopped by SIGTERM or SIGINT, 1 cannot start or failed, 2 bad command line.";

enum { ROWS = 10 };

static size_t make_table(struct box_options *o, struct bt_cli_option t[ROWS])
{
    const struct bt_cli_option rows[] = {
        {"name", BT_CLI_TEXT_AT, &o->name, 0, 0, "NAME", "which of the document's boxes this is, required"},
        {"address", BT_CLI_TEXT_AT, &o->address, 0, 0, "IP", "own address, instead of the document's"},
        {"mtu", BT_CLI_AUTO_U32, &o->mtu, BT_MTU_MIN, BT_MTU_MAX, "auto|BYTES",
         "IP MTU, the same on all nodes; auto reads it"},
        {"config", BT_CLI_TEXT, &o->config, 0, 0, "FILE", "document to start with"},
        {"config-cache", BT_CLI_TEXT, &o->config_cache, 0, 0, "FILE", "keep the last good document here"},
        {"key-dir", BT_CLI_TEXT, &o->key_dir, 0, 0, "DIR", "folder of key files, each named by its key id"},
        {"ctl", BT_CLI_TEXT, &o->ctl, 0, 0, "PATH", "control socket; empty for none"},
        {"log", BT_CLI_CHOICE, &o->log, 0, 0, "text|json", "form of the log lines on stderr"},
    };
    _Static_assert(sizeof rows / sizeof *rows <= ROWS, "the table must fit");
    memcpy(t, rows, sizeof rows);
    return sizeof rows / sizeof *rows;
}

enum bt_cli_result box_options_read(int argc, char **argv, struct box_options *o, struct bt_addr *override)
{
    struct bt_cli_option table[ROWS];
    *o = (struct box_options){.ctl = BT_CTL_DEFAULT_SOCKET};
    const struct bt_cli program = {"bobtail-box",
                                   "The flow-control box of a HovercRaft group: what its clients send requests to.",
                                   epilogue, table, make_table(o, table)};
    enum bt_cli_result result = bt_cli_parse(&program, argc, argv);
    if (result != BT_CLI_RUN) {
        return result;
    }
    if (o->name == NULL || o->name[0] == '\0' || strlen(o->name) >= BT_GROUP_DOCUMENT_NAME) {
        bt_cli_error(&program, "name", "must be a name of 1..%u bytes; got \"%s\"", BT_GROUP_DOCUMENT_NAME - 1,
                     o->name != NULL ? o->name : "");
        return BT_CLI_EXIT_USAGE;
    }
    return bt_cli_own_address(&program, o->address, "box", override) ? BT_CLI_RUN : BT_CLI_EXIT_USAGE;
}
