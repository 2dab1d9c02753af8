// SPDX-License-Identifier: Apache-2.0
// Command lines by themselves: a value fills its own place and no other, an address may be left out, a line of a file
// stands for a value, and what --help says of each kind.
#include "unit.h"

#include "captured.h"
#include "shell/cli.h"

#include <stdlib.h>
#include <string.h>

static struct {
    uint32_t before, number, after;
    uint64_t large;
    const char *text;
    uint64_t time;
    double share;
    bool flag;
    int word;
} to;

static const struct bt_cli_option rows[] = {
    {.kind = BT_CLI_HEADING, .help = "Heading"},
    {"number", BT_CLI_U32, &to.number, 0, 0, NULL, "any"},
    {"auto", BT_CLI_AUTO_U32, &to.number, 1, 9, NULL, "some"},
    {"large", BT_CLI_U64, &to.large, 0, 0, NULL, "large"},
    {"text", BT_CLI_TEXT_AT, &to.text, 0, 0, NULL, "text"},
    {"plain", BT_CLI_TEXT, &to.text, 0, 0, NULL, "plain"},
    {"time", BT_CLI_DURATION, &to.time, 0, 0, NULL, "time"},
    {"share", BT_CLI_DOUBLE, &to.share, 0, 0, NULL, "share"},
    {"flag", BT_CLI_FLAG, &to.flag, 0, 0, NULL, "flag"},
    {"word", BT_CLI_CHOICE, &to.word, 0, 0, "one|three", "word"},
    {"an-option-whose-name-is-very-long", BT_CLI_U32, &to.number, 0, 0, NULL, "long"},
};

static const struct bt_cli program = {"program", "Summary.", "Epilogue.", rows, sizeof rows / sizeof rows[0]};
static char said[4096];

static enum bt_cli_result parse(const struct bt_cli *p, const char *one, const char *two, int fd)
{
    char *argv[] = {(char *)"program", (char *)one, (char *)two, NULL};
    struct captured c = captured_begin(fd);
    enum bt_cli_result result = bt_cli_parse(p, two != NULL ? 3 : 2, argv);
    captured_end(&c, said, sizeof said);
    return result;
}

static void a_value_fills_its_own_place(void **state)
{
    (void)state;
    memset(&to, 0xee, sizeof to);
    assert_int_equal(parse(&program, "--number=4294967295", "--large=18446744073709551615", 2), BT_CLI_RUN);
    assert_int_equal(to.number, UINT32_MAX);
    assert_true(to.before == 0xeeeeeeee && to.after == 0xeeeeeeee);
    assert_true(to.large == UINT64_MAX);
    assert_int_equal(parse(&program, "--auto=auto", "--time=1.5us", 2), BT_CLI_RUN);
    assert_true(to.number == 0 && to.before == 0xeeeeeeee && to.after == 0xeeeeeeee);
    assert_int_equal(to.time, 1500);
    assert_int_equal(parse(&program, "--share=0.25", "--flag", 2), BT_CLI_RUN);
    assert_true(to.share == 0.25 && to.flag);
    assert_int_equal(parse(&program, "--word=three", "--plain=@text", 2), BT_CLI_RUN);
    assert_int_equal(to.word, 1);
    assert_string_equal(to.text, "@text"); // no file
    assert_int_equal(parse(&program, "--plain", "value", 2), BT_CLI_RUN);
    assert_string_equal(to.text, "value");
}

static void what_is_no_value_is_told(void **state)
{
    static const char *const lines[][2] = {
        {"--number=4294967296",
         "program: --number: must be a whole number; got \"4294967296\"\nTry 'program --help'.\n"},
        {"--number=+1", "program: --number: must be a whole number; got \"+1\"\nTry 'program --help'.\n"},
        {"--auto=0", "program: --auto: must be auto or a whole number 1..9; got \"0\"\nTry 'program --help'.\n"},
        {"--share=nan", "program: --share: must be a number; got \"nan\"\nTry 'program --help'.\n"},
        {"--share=0x1", "program: --share: must be a number; got \"0x1\"\nTry 'program --help'.\n"},
        {"--share=1 ", "program: --share: must be a number; got \"1 \"\nTry 'program --help'.\n"},
        {"--time=5", "program: --time: must be a time such as 250us, 5ms or 2s; got \"5\"\nTry 'program --help'.\n"},
        {"--word=two", "program: --word: must be one of one|three; got \"two\"\nTry 'program --help'.\n"},
        {"--word=on", "program: --word: must be one of one|three; got \"on\"\nTry 'program --help'.\n"},
        {"file", "program: unexpected argument \"file\"; options start with --\nTry 'program --help'.\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_int_equal(parse(&program, lines[i][0], NULL, 2), BT_CLI_EXIT_USAGE);
        assert_string_equal(said, lines[i][1]);
    }
    assert_int_equal(parse(&program, "--nonsense", NULL, 2), BT_CLI_EXIT_USAGE);
    assert_non_null(strstr(said, "nonsense"));
    assert_non_null(strstr(said, "\nTry 'program --help'.\n"));
}

static void help_says_each_default_in_its_own_way(void **state)
{
    static const char want[] = "Usage: program [options]\n"
                               "Summary.\n"
                               "\n"
                               "Heading:\n"
                               "  --number=N                      any (default 7)\n"
                               "  --auto=auto|N                   some (default 7)\n"
                               "  --large=N                       large (default 5000000000)\n"
                               "  --text=TEXT                     text (default words)\n"
                               "  --plain=TEXT                    plain (default words)\n"
                               "  --time=TIME                     time (default 1500us)\n"
                               "  --share=X                       share (default 0.5)\n"
                               "  --flag                          flag\n"
                               "  --word=one|three                word (default three)\n"
                               "  --an-option-whose-name-is-very-long=N\n"
                               "                                  long (default 7)\n"
                               "\n"
                               "General:\n"
                               "  --help                          print this text and exit\n"
                               "  --version                       print the version and exit\n"
                               "\n"
                               "Epilogue.\n";
    static const uint64_t times[] = {0, 1, 1000, 2000000, 3000000000};
    static const char *const spelled[] = {"(default 0)", "(default 1ns)", "(default 1us)", "(default 2ms)",
                                          "(default 3s)"};
    struct bt_cli bare = program;
    (void)state;
    to.number = 7;
    to.large = 5000000000;
    to.text = "words";
    to.time = 1500000;
    to.share = 0.5;
    to.word = 1;
    assert_int_equal(parse(&program, "--help", "--number=x", 1), BT_CLI_EXIT_OK);
    assert_string_equal(said, want);
    for (unsigned i = 0; i < 5; i++) {
        to.time = times[i];
        parse(&program, "--help", NULL, 1);
        assert_non_null(strstr(said, spelled[i]));
    }
    to.text = NULL;
    to.number = 0;
    bare.epilogue = NULL;
    parse(&bare, "--help", NULL, 1);
    assert_non_null(strstr(said, "  --plain=TEXT                    plain\n"));
    assert_non_null(strstr(said, "some (default auto)\n"));
    assert_string_equal(strstr(said, "  --version"), "  --version                       print the version and exit\n");
    assert_int_equal(parse(&program, "--version", NULL, 1), BT_CLI_EXIT_OK);
    assert_string_equal(said, "program " BOBTAIL_VERSION "\n");
}

static void a_file_stands_for_its_only_line(void **state)
{
    char path[] = "/tmp/bobtail-cli-XXXXXX", given[64], line[300], want[200];
    static const struct {
        size_t n;
        const char *end;
        bool taken;
    } rows_of[] = {{1, "", true},    {255, "\n", true}, {255, "", true},
                   {256, "", false}, {0, "\n", false},  {3, "\n\n", false}};
    (void)state;
    close(mkstemp(path));
    snprintf(given, sizeof given, "--text=@%s", path);
    for (size_t i = 0; i < sizeof rows_of / sizeof rows_of[0]; i++) {
        FILE *f = fopen(path, "w");
        memset(line, 'x', sizeof line);
        line[rows_of[i].n] = '\0';
        assert_true(f != NULL && fprintf(f, "%s%s", line, rows_of[i].end) >= 0 && fclose(f) == 0);
        bool taken = parse(&program, given, NULL, 2) == BT_CLI_RUN;
        assert_int_equal(taken, rows_of[i].taken);
        snprintf(want, sizeof want,
                 "program: --text: \"%s\" must hold one line of 1..255 characters\nTry 'program --help'.\n", path);
        assert_string_equal(said, taken ? "" : want);
        if (taken) {
            assert_string_equal(to.text, line);
            free((void *)(uintptr_t)to.text);
        }
    }
    unlink(path);
    assert_int_equal(parse(&program, given, NULL, 2), BT_CLI_EXIT_USAGE);
    snprintf(want, sizeof want,
             "program: --text: cannot read \"%s\": No such file or directory\nTry 'program --help'.\n", path);
    assert_string_equal(said, want);
}

static void an_own_address_may_be_left_out(void **state)
{
    static const char *const bad[] = {"", "localhost", "1.2.3.4:5", "224.0.0.1", "[::1]"};
    struct bt_addr a, none = {.port = 0};
    char text[BT_ADDR_TEXT], want[200];
    (void)state;
    memset(&a, 0xee, sizeof a);
    assert_true(bt_cli_own_address(&program, NULL, "box", &a));
    assert_memory_equal(&a, &none, sizeof a);
    assert_true(bt_cli_own_address(&program, "fd00::7", "box", &a));
    assert_string_equal(bt_addr_format(&a, text), "[fd00::7]:1");
    assert_true(bt_cli_own_address(&program, "10.0.0.7", "box", &a));
    assert_string_equal(bt_addr_format(&a, text), "10.0.0.7:1");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct captured c = captured_begin(2);
        bool taken = bt_cli_own_address(&program, bad[i], "box", &a);
        captured_end(&c, said, sizeof said);
        assert_false(taken);
        snprintf(
            want, sizeof want,
            "program: --address: must be the IP address this box is reached at; got \"%s\"\nTry 'program --help'.\n",
            bad[i]);
        assert_string_equal(said, want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_fills_its_own_place),           cmocka_unit_test(what_is_no_value_is_told),
        cmocka_unit_test(help_says_each_default_in_its_own_way), cmocka_unit_test(a_file_stands_for_its_only_line),
        cmocka_unit_test(an_own_address_may_be_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
