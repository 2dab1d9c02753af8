// SPDX-License-Identifier: Apache-2.0
// The option table of programs that are members of a group.
#include "replica_app.h"

#include "io/mtu.h"

#include <stdio.h>
#include <string.h>

static const char epilogue[] =
    "Members, addresses, ports and limits come from a document of kind ReplicationGroup: --config, or a sidecar over "
    "the\n"
    "control socket. A disk that must not be used does not end the program: it stays, is not ready, and says why.\n"
    "Exit status: 0 stopped by SIGTERM or SIGINT, 1 cannot start or failed, 2 bad command line.";

enum { ROWS = 16 };

static size_t make_table(struct replica_options *o, struct bt_cli_option t[ROWS])
{
    const struct bt_cli_option rows[] = {
        {"name", BT_CLI_TEXT_AT, &o->name, 0, 0, "NAME", "which of the document's members this is, required"},
        {"data", BT_CLI_TEXT, &o->data, 0, 0, "DIR", "folder of the log and the snapshots, required"},
        {"address", BT_CLI_TEXT_AT, &o->address, 0, 0, "IP", "own address, instead of the document's"},
        {"mtu", BT_CLI_AUTO_U32, &o->mtu, BT_MTU_MIN, BT_MTU_MAX, "auto|BYTES",
         "IP MTU, the same on all nodes; auto reads it"},
        {"config", BT_CLI_TEXT, &o->config, 0, 0, "FILE", "document to start with"},
        {"config-cache", BT_CLI_TEXT, &o->config_cache, 0, 0, "FILE", "keep the last good document here"},
        {"key-dir", BT_CLI_TEXT, &o->key_dir, 0, 0, "DIR", "folder of key files, each named by its key id"},
        {"ctl", BT_CLI_TEXT, &o->ctl, 0, 0, "PATH", "control socket; empty for none"},
        {"protocol", BT_CLI_CHOICE, &o->protocol, 0, 0, "document|raft|hovercraft|hovercraftpp",
         "the same on all members of the group; the document's, or this one instead"},
        {"drain-seconds", BT_CLI_U32, &o->drain_seconds, 0, 3600, NULL, "longest hand-over after SIGTERM"},
        {"backup-to", BT_CLI_TEXT, &o->backup_to, 0, 0, "DIR",
         "copy --data there, also of a member that runs, and end"},
        {"backup-keep", BT_CLI_U32, &o->backup_keep, 0, 100000, NULL,
         "copies of this group that stay beside the new one, which counts; older ones are removed; 0: all stay"},
        {"restore-from", BT_CLI_TEXT, &o->restore_from, 0, 0, "DIR",
         "make --data the first disk of a new group out of such a copy, and end"},
        {"cluster", BT_CLI_TEXT, &o->cluster, 0, 0, "ID", "of the new group, 32 hexadecimal digits"},
        {"log", BT_CLI_CHOICE, &o->log, 0, 0, "text|json", "form of the log lines on stderr"},
    };
    _Static_assert(sizeof rows / sizeof *rows <= ROWS, "the table must fit");
    memcpy(t, rows, sizeof rows);
    return sizeof rows / sizeof *rows;
}

enum bt_cli_result replica_options_read(int argc, char **argv, const struct r2p2_replica_service *service,
                                        struct replica_options *o, struct bt_addr *override)
{
    struct bt_cli_option table[ROWS];
    *o = (struct replica_options){.ctl = BT_CTL_DEFAULT_SOCKET, .drain_seconds = 5};
    const struct bt_cli program = {service->name, service->summary, epilogue, table, make_table(o, table)};
    enum bt_cli_result result = bt_cli_parse(&program, argc, argv);
    if (result != BT_CLI_RUN) {
        return result;
    }
    if (o->name == NULL || o->name[0] == '\0' || strlen(o->name) >= BT_GROUP_DOCUMENT_NAME) {
        bt_cli_error(&program, "name", "must be a name of 1..%u bytes; got \"%s\"", BT_GROUP_DOCUMENT_NAME - 1,
                     o->name != NULL ? o->name : "");
        return BT_CLI_EXIT_USAGE;
    }
    if (o->data == NULL || o->data[0] == '\0') {
        bt_cli_error(&program, "data", "must be a folder; its parent must be there");
        return BT_CLI_EXIT_USAGE;
    }
    if (o->backup_keep != 0 && o->backup_to == NULL) {
        bt_cli_error(&program, "backup-keep", "must be given with --backup-to only");
        return BT_CLI_EXIT_USAGE;
    }
    if ((o->restore_from != NULL) != (o->cluster != NULL)) {
        bt_cli_error(&program, "cluster", "must be given with --restore-from, and only with it");
        return BT_CLI_EXIT_USAGE;
    }
    return bt_cli_own_address(&program, o->address, "member", override) ? BT_CLI_RUN : BT_CLI_EXIT_USAGE;
}
