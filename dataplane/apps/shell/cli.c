// SPDX-License-Identifier: Apache-2.0
// See cli.h.
#include "shell/cli.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELP = 1000, VERSION = 1001, MAX_OPTIONS = 64, HELP_COLUMN = 34, LONGEST_LINE = 255 };

void bt_cli_error(const struct bt_cli *p, const char *option, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: --%s: ", p->name, option);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\nTry '%s --help'.\n", p->name);
    va_end(args);
}

bool bt_cli_own_address(const struct bt_cli *p, const char *text, const char *whose, struct bt_addr *out)
{
    char with_port[80];
    memset(out, 0, sizeof *out);
    if (text == NULL) {
        return true;
    }
    snprintf(with_port, sizeof with_port, strchr(text, ':') != NULL ? "[%.60s]:1" : "%.60s:1", text);
    if (bt_addr_parse(with_port, 0, out) != 0 || bt_addr_bad_source(out)) {
        bt_cli_error(p, "address", "must be the IP address this %s is reached at; got \"%s\"", whose, text);
        return false;
    }
    return true;
}

bool bt_duration_parse(const char *text, uint64_t *ns)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
    char *end;
    if (text[0] < '0' || text[0] > '9' || strpbrk(text, "xX") != NULL) { // strtod also reads 0x10
        return false;
    }
    double v = strtod(text, &end);
    if (end == text || !isfinite(v)) {
        return false;
    }
    if (*end == '\0') {
        *ns = 0;
        return v == 0;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].unit) == 0 && v * units[i].ns <= 9e18) {
            *ns = (uint64_t)llround(v * units[i].ns);
            return true;
        }
    }
    return false;
}

static void print_duration(FILE *f, uint64_t ns)
{
    static const struct {
        const char *unit;
        uint64_t ns;
    } units[] = {{"s", 1000000000}, {"ms", 1000000}, {"us", 1000}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (ns != 0 && ns % units[i].ns == 0) {
            fprintf(f, "%" PRIu64 "%s", ns / units[i].ns, units[i].unit);
            return;
        }
    }
    fprintf(f, "%" PRIu64 "%s", ns, ns != 0 ? "ns" : "");
}

// The word at `index` of "a|b|c", its length in *len; NULL past the end.
static const char *choice(const char *choices, int index, size_t *len)
{
    for (;; index--) {
        *len = strcspn(choices, "|");
        if (index == 0) {
            return choices;
        }
        if (choices[*len] == '\0') {
            return NULL;
        }
        choices += *len + 1;
    }
}

static void print_default(const struct bt_cli_option *o)
{
    size_t len;
    switch (o->kind) {
    case BT_CLI_TEXT:
    case BT_CLI_TEXT_AT:
        if (*(const char **)o->to != NULL) {
            printf(" (default %s)", *(const char **)o->to);
        }
        break;
    case BT_CLI_U32:
        printf(" (default %" PRIu32 ")", *(uint32_t *)o->to);
        break;
    case BT_CLI_AUTO_U32:
        if (*(uint32_t *)o->to == 0) {
            printf(" (default auto)");
        } else {
            printf(" (default %" PRIu32 ")", *(uint32_t *)o->to);
        }
        break;
    case BT_CLI_U64:
        printf(" (default %" PRIu64 ")", *(uint64_t *)o->to);
        break;
    case BT_CLI_DOUBLE:
        printf(" (default %g)", *(double *)o->to);
        break;
    case BT_CLI_DURATION:
        printf(" (default ");
        print_duration(stdout, *(uint64_t *)o->to);
        printf(")");
        break;
    case BT_CLI_CHOICE: {
        const char *word = choice(o->choices, *(int *)o->to, &len);
        printf(" (default %.*s)", (int)len, word);
        break;
    }
    case BT_CLI_FLAG:
    case BT_CLI_HEADING:
        break;
    }
}

static void print_help(const struct bt_cli *p)
{
    printf("Usage: %s [options]\n%s\n", p->name, p->summary);
    for (size_t i = 0; i < p->n_options; i++) {
        const struct bt_cli_option *o = &p->options[i];
        if (o->kind == BT_CLI_HEADING) {
            printf("\n%s:\n", o->help);
            continue;
        }
        static const char *const stands[] = {"TEXT", "TEXT", "N", "N", "auto|N", "X", "TIME", "", "", ""};
        const char *value = o->choices != NULL ? o->choices : stands[o->kind];
        int n = printf("  --%s%s%s", o->name, o->kind != BT_CLI_FLAG ? "=" : "", o->kind != BT_CLI_FLAG ? value : "");
        printf("%s%*s%s", n > HELP_COLUMN - 2 ? "\n" : "", n > HELP_COLUMN - 2 ? HELP_COLUMN : HELP_COLUMN - n, "",
               o->help);
        print_default(o);
        printf("\n");
    }
    printf("\nGeneral:\n  --help%*sprint this text and exit\n  --version%*sprint the version and exit\n",
           HELP_COLUMN - 8, "", HELP_COLUMN - 11, "");
    if (p->epilogue != NULL) {
        printf("\n%s\n", p->epilogue);
    }
}

static bool in_bounds(const struct bt_cli_option *o, double v)
{
    return (o->min == 0 && o->max == 0) || (v >= o->min && v <= o->max);
}

static bool bad_number(const struct bt_cli *p, const struct bt_cli_option *o, const char *text, const char *what)
{
    if (o->min == 0 && o->max == 0) {
        bt_cli_error(p, o->name, "must be %s; got \"%s\"", what, text);
    } else {
        bt_cli_error(p, o->name, "must be %s %.10g..%.10g; got \"%s\"", what, o->min, o->max, text);
    }
    return false;
}

static bool set_integer(const struct bt_cli *p, const struct bt_cli_option *o, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    bool digits = text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
    bool automatic = o->kind == BT_CLI_AUTO_U32;
    if (automatic && strcmp(text, "auto") == 0) {
        *(uint32_t *)o->to = 0;
        return true;
    }
    if (!digits || !in_bounds(o, (double)v) || (o->kind != BT_CLI_U64 && v > UINT32_MAX)) {
        return bad_number(p, o, text, automatic ? "auto or a whole number" : "a whole number");
    }
    if (o->kind != BT_CLI_U64) {
        *(uint32_t *)o->to = (uint32_t)v;
    } else {
        *(uint64_t *)o->to = v;
    }
    return true;
}

static bool set_double(const struct bt_cli *p, const struct bt_cli_option *o, const char *text)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end != '\0' || strpbrk(text, "xX ") != NULL || !isfinite(v) || !in_bounds(o, v)) {
        return bad_number(p, o, text, "a number");
    }
    *(double *)o->to = v;
    return true;
}

static bool set_duration(const struct bt_cli *p, const struct bt_cli_option *o, const char *text)
{
    uint64_t ns;
    if (!bt_duration_parse(text, &ns)) {
        bt_cli_error(p, o->name, "must be a time such as 250us, 5ms or 2s; got \"%s\"", text);
        return false;
    }
    if (!in_bounds(o, (double)ns)) {
        bt_cli_error(p, o->name, "must be %gs..%gs; got \"%s\"", o->min / 1e9, o->max / 1e9, text);
        return false;
    }
    *(uint64_t *)o->to = ns;
    return true;
}

static bool set_choice(const struct bt_cli *p, const struct bt_cli_option *o, const char *text)
{
    size_t len;
    for (int i = 0;; i++) {
        const char *word = choice(o->choices, i, &len);
        if (word == NULL) {
            bt_cli_error(p, o->name, "must be one of %s; got \"%s\"", o->choices, text);
            return false;
        }
        if (strlen(text) == len && memcmp(word, text, len) == 0) {
            *(int *)o->to = i;
            return true;
        }
    }
}

// The line in the file is kept until the program ends, as argv is.
static bool set_text_at(const struct bt_cli *p, const struct bt_cli_option *o, const char *text)
{
    char line[LONGEST_LINE + 2] = "";
    FILE *f = text[0] == '@' ? fopen(text + 1, "re") : NULL;
    if (text[0] != '@') {
        *(const char **)o->to = text;
        return true;
    }
    if (f == NULL) {
        bt_cli_error(p, o->name, "cannot read \"%s\": %s", text + 1, strerror(errno));
        return false;
    }
    size_t n = fread(line, 1, sizeof line - 1, f);
    (void)fclose(f);
    n -= n > 0 && line[n - 1] == '\n';
    line[n] = '\0';
    if (n == 0 || n > LONGEST_LINE || strlen(line) != n || strchr(line, '\n') != NULL) {
        bt_cli_error(p, o->name, "\"%s\" must hold one line of 1..%d characters", text + 1, LONGEST_LINE);
        return false;
    }
    *(const char **)o->to = strdup(line);
    return *(const char **)o->to != NULL;
}

static bool set(const struct bt_cli *p, const struct bt_cli_option *o, const char *text)
{
    switch (o->kind) {
    case BT_CLI_TEXT:
        *(const char **)o->to = text;
        return true;
    case BT_CLI_TEXT_AT:
        return set_text_at(p, o, text);
    case BT_CLI_U32:
    case BT_CLI_U64:
    case BT_CLI_AUTO_U32:
        return set_integer(p, o, text);
    case BT_CLI_DOUBLE:
        return set_double(p, o, text);
    case BT_CLI_DURATION:
        return set_duration(p, o, text);
    case BT_CLI_CHOICE:
        return set_choice(p, o, text);
    case BT_CLI_FLAG:
        *(bool *)o->to = true;
        return true;
    case BT_CLI_HEADING:
        break;
    }
    return false;
}

static void make_long_options(const struct bt_cli *p, struct option *longs)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_options && n < MAX_OPTIONS; i++) {
        const struct bt_cli_option *o = &p->options[i];
        if (o->kind != BT_CLI_HEADING) {
            longs[n++] =
                (struct option){o->name, o->kind == BT_CLI_FLAG ? no_argument : required_argument, NULL, (int)i};
        }
    }
    longs[n++] = (struct option){"help", no_argument, NULL, HELP};
    longs[n++] = (struct option){"version", no_argument, NULL, VERSION};
    longs[n] = (struct option){0};
}

enum bt_cli_result bt_cli_parse(const struct bt_cli *p, int argc, char **argv)
{
    struct option longs[MAX_OPTIONS + 3];
    int c;
    make_long_options(p, longs);
    optind = 1;
    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (c == HELP) {
            print_help(p);
            return BT_CLI_EXIT_OK;
        }
        if (c == VERSION) {
            printf("%s %s\n", p->name, BOBTAIL_VERSION);
            return BT_CLI_EXIT_OK;
        }
        if (c == '?') {
            fprintf(stderr, "Try '%s --help'.\n", p->name); // getopt said what is wrong
            return BT_CLI_EXIT_USAGE;
        }
        if (!set(p, &p->options[c], optarg)) {
            return BT_CLI_EXIT_USAGE;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "%s: unexpected argument \"%s\"; options start with --\nTry '%s --help'.\n", p->name,
                argv[optind], p->name);
        return BT_CLI_EXIT_USAGE;
    }
    return BT_CLI_RUN;
}
