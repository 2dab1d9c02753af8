// SPDX-License-Identifier: Apache-2.0
// See options_bed.h.
#include "options_bed.h"

#include "captured.h"
#include "shell/network_dpdk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 24 };

enum bt_cli_result __real_bt_cli_parse(const struct bt_cli *p, int argc, char **argv);
enum bt_cli_result __wrap_bt_cli_parse(const struct bt_cli *p, int argc, char **argv);

// The linker puts this in the place of bt_cli_parse: a row that is no number has no bounds, which nobody would look at.
enum bt_cli_result __wrap_bt_cli_parse(const struct bt_cli *p, int argc, char **argv)
{
    for (size_t i = 0; i < p->n_options; i++) {
        const struct bt_cli_option *o = &p->options[i];
        bool number = (o->kind >= BT_CLI_U32 && o->kind <= BT_CLI_DURATION) && o->kind != BT_CLI_U64;
        if (!number && (o->min != 0 || o->max != 0)) {
            fail_msg("--%s has bounds, and is no number", o->name);
        }
        assert_true((o->name != NULL) == (o->kind != BT_CLI_HEADING) && (o->name != NULL) == (o->to != NULL));
        assert_true(o->choices == NULL || (o->kind != BT_CLI_FLAG && o->kind != BT_CLI_HEADING));
    }
    return __real_bt_cli_parse(p, argc, argv);
}

// What it wrote to the descriptor (1 or 2); the words stay, since options point to them.
static enum bt_cli_result read_line(const struct options_bed *b, const char *given, int fd, char *said, size_t len)
{
    static char line[2048];
    char *argv[WORDS_MAX + 1] = {0}, *save = NULL;
    int argc = 0;
    bool help = strcmp(given, "--help") == 0; // which says what holds before anything was given
    snprintf(line, sizeof line, "%s %s %s", b->program, help ? "" : b->needed, given);
    for (char *word = strtok_r(line, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
        assert_true(argc < WORDS_MAX);
        argv[argc++] = word;
    }
    struct captured c = captured_begin(fd);
    enum bt_cli_result result = b->read(argc, argv);
    captured_end(&c, said, len);
    return result;
}

static double value_of(enum bt_cli_kind kind, const char *text)
{
    uint64_t ns = 0;
    if (kind != BT_CLI_DURATION) {
        return strcmp(text, "auto") == 0 ? 0 : strtod(text, NULL);
    }
    assert_true(bt_duration_parse(text, &ns));
    return (double)ns;
}

static double read_value(const struct option_row *r)
{
    switch (r->kind) {
    case BT_CLI_U32:
    case BT_CLI_AUTO_U32:
        return *(const uint32_t *)r->at;
    case BT_CLI_DOUBLE:
        return *(const double *)r->at;
    case BT_CLI_CHOICE:
        return *(const int *)r->at;
    case BT_CLI_FLAG:
        return *(const bool *)r->at;
    default:
        return (double)*(const uint64_t *)r->at;
    }
}

static void give(const struct options_bed *b, const struct option_row *r, const char *value, bool good)
{
    char line[600], said[1000], named[80];
    snprintf(line, sizeof line, "%s --%s%s%s", r->with != NULL ? r->with : "", r->name,
             r->kind != BT_CLI_FLAG ? "=" : "", value);
    enum bt_cli_result result = read_line(b, line, 2, said, sizeof said);
    snprintf(named, sizeof named, "--%s: must be ", r->name);
    if ((result == BT_CLI_RUN) != good || (!good && strstr(said, named) == NULL)) {
        fail_msg("%s: result %d, said \"%s\"", line, result, said);
    }
}

static void hold_choices(const struct options_bed *b, const struct option_row *r)
{
    int i = 0;
    for (const char *at = r->least; *at != '\0'; i++) {
        char word[40];
        size_t n = strcspn(at, "|");
        snprintf(word, sizeof word, "%.*s", (int)n, at);
        give(b, r, word, true);
        assert_int_equal((int)read_value(r), i);
        at += n + (at[n] == '|');
    }
    give(b, r, "another", false);
}

static void hold_value(const struct options_bed *b, const struct option_row *r, const char *text)
{
    give(b, r, text, true);
    if (r->kind == BT_CLI_TEXT || r->kind == BT_CLI_TEXT_AT) {
        assert_string_equal(*(const char *const *)r->at, text);
    } else if (read_value(r) != value_of(r->kind, text)) {
        fail_msg("--%s=%s was read as %g", r->name, text, read_value(r));
    }
}

static void hold_row(const struct options_bed *b, const struct option_row *r)
{
    const char *const taken[] = {r->least, r->most}, *const not_taken[] = {r->below, r->above};
    if (r->kind == BT_CLI_CHOICE) {
        hold_choices(b, r);
        return;
    }
    if (r->kind == BT_CLI_FLAG) {
        give(b, r, "", true);
        assert_true(*(const bool *)r->at);
        return;
    }
    if (r->kind == BT_CLI_AUTO_U32) {
        hold_value(b, r, "auto");
    }
    for (unsigned i = 0; i < 2; i++) {
        if (taken[i] != NULL) {
            hold_value(b, r, taken[i]);
        }
        if (not_taken[i] != NULL) {
            give(b, r, not_taken[i], false);
        }
    }
}

static void help_of(const struct options_bed *b, char *help, size_t len)
{
    assert_int_equal(read_line(b, "--help", 1, help, len), BT_CLI_EXIT_OK);
    assert_true(strlen(help) < len - 1);
}

// "--name=VALUE   what it does (default X)"
static void in_help(const struct option_row *r, const char *help)
{
    char row[100], want[200];
    snprintf(row, sizeof row, "\n  --%s%s", r->name, r->kind != BT_CLI_FLAG ? "=" : " ");
    const char *at = strstr(help, row);
    assert_non_null(at);
    const char *value = at + strlen(row), *says = value + strcspn(value, " \n");
    bool has_value = says != value;
    says += strspn(says, " \n");
    const char *end = says + strcspn(says, "\n"), *normal = strstr(says, " (default ");
    normal = normal != NULL && normal < end ? normal : end;
    snprintf(want, sizeof want, " (default %s)", r->normal != NULL ? r->normal : "");
    bool right =
        r->normal != NULL ? strncmp(normal, want, strlen(want)) == 0 && normal + strlen(want) == end : normal == end;
    if (!right || normal - says < 8 || has_value == (r->kind == BT_CLI_FLAG)) {
        fail_msg("--%s: --help says \"%.160s\"", r->name, at);
    }
}

void options_hold(const struct options_bed *b, const struct option_row *rows, size_t n)
{
    static char help[16384];
    help_of(b, help, sizeof help);
    for (size_t i = 0; i < n; i++) {
        in_help(&rows[i], help);
        hold_row(b, &rows[i]);
    }
}

void options_are(const struct options_bed *b, size_t n, const char *headings, const char *more)
{
    static char help[16384];
    size_t lines = 0, len = 0;
    char found[300] = "";
    help_of(b, help, sizeof help);
    for (const char *at = help; (at = strstr(at, "\n  --")) != NULL; at++) {
        lines++;
    }
    assert_int_equal(lines, n + 2); // --help and --version are every program's
    for (const char *at = help; (at = strstr(at, ":\n  --")) != NULL; at++) {
        const char *from = at;
        while (from[-1] != '\n') {
            from--;
        }
        len += (size_t)snprintf(found + len, sizeof found - len, "%.*s|", (int)(at - from), from);
    }
    const char *summary = strchr(help, '\n') + 1; // below "Usage: …"
    assert_true(strcspn(summary, "\n") > 20);
    assert_string_equal(found, headings);
    assert_non_null(strstr(help, more));
}

size_t options_network(const struct bt_network_options *o, const char *with, struct option_row *rows)
{
    const struct option_row all[OPTIONS_NETWORK] = {
        {"idle", BT_CLI_CHOICE, &o->idle, "auto", "auto|sleep|spin|yield", NULL, NULL, NULL, NULL},
        {"cpus", BT_CLI_TEXT, &o->cpu_list, NULL, NULL, NULL, NULL, NULL, NULL},
        {"dpdk-port", BT_CLI_TEXT_AT, &o->port, NULL, "net_null1", NULL, NULL, NULL, with},
        {"dpdk-pci-file", BT_CLI_TEXT, &o->pci_file, NULL, NULL, NULL, NULL, NULL, with},
        {"dpdk-prefix", BT_CLI_AUTO_U32, &o->prefix, "auto", "1", "32", "0", "33", with},
        {"dpdk-gateway", BT_CLI_TEXT, &o->gateway, NULL, "10.0.0.1", NULL, "gateway", "fd00::1", with},
        {"dpdk-queues", BT_CLI_AUTO_U32, &o->queues, "auto", "1", "16", "0", "17", with},
        {"dpdk-buffers", BT_CLI_AUTO_U32, &o->buffers, "auto", "1024", "4194304", "1023", "4194305", with},
        {"dpdk-checksums", BT_CLI_CHOICE, &o->checksums, "auto", "auto|full|unfinished|none", NULL, NULL, NULL, with},
        {"dpdk-hugepages", BT_CLI_CHOICE, &o->hugepages, "auto", "auto|on|off", NULL, NULL, NULL, with},
        {"dpdk-memory", BT_CLI_AUTO_U32, &o->memory_mib, "auto", "16", "1048576", "15", "1048577", with},
        {"dpdk-link-wait", BT_CLI_DURATION, &o->link_wait_ns, "1s", "0", "10m", NULL, "600000000001ns", with},
        {"dpdk-eal", BT_CLI_TEXT, &o->eal, NULL, "--no-huge", NULL, NULL, NULL, with},
    };
    memcpy(rows, all, sizeof all);
    return bt_network_has_dpdk ? OPTIONS_NETWORK : 2;
}

void options_refused(const struct options_bed *b, const struct option_refusal *rows, size_t n)
{
    char said[1000], want[1000];
    for (size_t i = 0; i < n; i++) {
        enum bt_cli_result result = read_line(b, rows[i].given, 2, said, sizeof said);
        snprintf(want, sizeof want, "%s: %s\nTry '%s --help'.\n", b->program, rows[i].why, b->program);
        if (result != BT_CLI_EXIT_USAGE || strcmp(said, want) != 0) {
            fail_msg("%s: result %d, said \"%s\", want \"%s\"", rows[i].given, result, said, want);
        }
    }
}

void options_taken(const struct options_bed *b, const char *given)
{
    char said[1000];
    if (read_line(b, given, 2, said, sizeof said) != BT_CLI_RUN) {
        fail_msg("%s: %s", given, said);
    }
}
