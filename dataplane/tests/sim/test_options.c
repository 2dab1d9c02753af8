// SPDX-License-Identifier: Apache-2.0
// Options that cannot be meant are refused by name, with what would be right, before anything runs.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "commands.h"
#include "option.h"

enum { ARGS_MAX = 8 };

/* In a process of its own, since a refusal ends it: the exit code, and what it wrote to standard error. */
static int run(int (*command)(int, char **), const char *options, char *said, size_t len)
{
    int out[2], status = -1;
    ssize_t got = 1;
    size_t n = 0;
    assert_int_equal(pipe(out), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char name[] = "command", *text = strdup(options), *argv[ARGS_MAX] = {name};
        int argc = 1;
        for (char *save, *word = strtok_r(text, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
            argv[argc++] = word;
        }
        dup2(out[1], 2);
        exit(freopen("/dev/null", "w", stdout) != NULL ? command(argc, argv) : 9);
    }
    close(out[1]);
    for (; got > 0 && n < len - 1; n += (size_t)(got > 0 ? got : 0)) {
        got = read(out[0], said + n, len - 1 - n);
    }
    said[n] = '\0';
    close(out[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void refused(int (*command)(int, char **), const char *options, const char *want)
{
    char said[500], line[600];
    assert_int_equal(run(command, options, said, sizeof said), 2);
    snprintf(line, sizeof line, "bobtail-sim: %s\n", want);
    assert_string_equal(said, line);
}

static void admission_names_the_option(void **state)
{
    (void)state;
    refused(sim_command_admission, "--workers=0", "--workers must be 1..1024; got 0");
    refused(sim_command_admission, "--workers=2.5", "--workers must be a whole number; got 2.5");
    refused(sim_command_admission, "--slo=x", "--slo must be 1..1e+08; got x");
    refused(sim_command_admission, "--percentile=nan", "--percentile must be 50..99.99; got nan");
    refused(sim_command_admission, "--settle=-1", "--settle must be 0..3600; got -1");
    refused(sim_command_admission, "--rates=1e6,", "--rates must be 1..1e+09; got ");
    refused(sim_command_admission, "--rates=", "--rates must be 1..1e+09; got ");
    refused(sim_command_admission, "--mix=0.5,2", "--mix must be 0..1; got 2");
    refused(sim_command_admission, "--mix=0.5", "--mix must add up to 1; got 0.5");
    refused(sim_command_admission, "--controller=PID", "--controller must be Track, AIAD or Off; got PID");
    refused(sim_command_admission, "file", "admission takes options only; got file");
}

static void the_other_commands_too(void **state)
{
    (void)state;
    refused(sim_command_crab, "--clients=1.9", "--clients must be a whole number; got 1.9");
    refused(sim_command_crab, "--loads=", "--loads must be 0.001..0.999; got ");
    refused(sim_command_crab, "--service=both", "--service must be fixed or exp; got both");
    refused(sim_command_crab, "--json=/nowhere/f --requests=1000 --loads=0.5",
            "--json=/nowhere/f: No such file or directory");
    refused(sim_command_hedge, "--loads=0.1,3", "--loads must be 0.001..2; got 3");
    refused(sim_command_hedge, "--shards=0", "--shards must be 1..1000; got 0");
    refused(sim_command_hedge, "file", "hedge takes options only; got file");
    refused(sim_command_policy, "--load=0.5,,0.6", "--load must be 0.001..10; got ");
    refused(sim_command_policy, "--path=tofino", "--path must be ideal, software or switch; got tofino");
    refused(sim_command_policy, "--distribution=trace",
            "--distribution must be deterministic, exponential, bimodal1, bimodal2, lognormal, bimodal10, erlang or "
            "hyperexponential; got trace");
    refused(sim_command_policy, "--distribution=trace:/nowhere/f",
            "--distribution=trace:/nowhere/f: No such file or directory");
    refused(sim_command_policy, "--policy=JBSQ:2-65", "--policy's n must be 2..64; got 65");
    refused(sim_command_policy, "--policy=JBSQ:1.5", "--policy's n must be a whole number; got 1.5");
}

static int full_disk(int argc, char **argv)
{
    FILE *f = sim_option_open(argv[0], argv[argc - 1]);
    fputs("text", f);
    return sim_option_close("--json", argv[argc - 1], f);
}

static void a_file_that_is_not_whole_is_told(void **state)
{
    (void)state;
    refused(full_disk, "/dev/full", "--json=/dev/full: No space left on device");
}

static void lists_hold_one_to_max_numbers(void **state)
{
    double got[3];
    (void)state;
    assert_int_equal(sim_option_list("--a", "7", 0, 10, got, 3), 1);
    assert_int_equal(sim_option_list("--a", "1,2.5,1e1", 0, 10, got, 3), 3);
    assert_true(got[0] == 1 && got[1] == 2.5 && got[2] == 10);
}

static int four_numbers(int argc, char **argv)
{
    double got[3];
    return (int)sim_option_list("--a", argv[argc - 1], 0, 10, got, 3);
}

static void longer_lists_are_refused(void **state)
{
    (void)state;
    refused(four_numbers, "1,2,3,4", "--a takes at most 3 numbers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(admission_names_the_option),       cmocka_unit_test(the_other_commands_too),
        cmocka_unit_test(a_file_that_is_not_whole_is_told), cmocka_unit_test(lists_hold_one_to_max_numbers),
        cmocka_unit_test(longer_lists_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
