// SPDX-License-Identifier: Apache-2.0
// The files of bobtail-crab-lb: how much a document may hold, whether a port can serve it, what a running balancer
// takes of a new one, and keys.
#include "unit.h"

#include "bobtail-crab-lb/lb_config.h"
#include "bobtail-crab-lb/lb_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct lb_config c;
static struct bt_ctl_error error;

static void at(const char *field, const char *message)
{
    assert_string_equal(error.field, field);
    assert_string_equal(error.message, message);
}

static void read_good(const char *text, struct lb_config *into)
{
    if (!lb_config_parse(text, strlen(text), into, &error)) {
        fail_msg("%.200s: %s: %s", text, error.field, error.message);
    }
}

// So many VIPs with so many servers each, on so many addresses.
static char *document(unsigned vips, unsigned servers, unsigned addrs)
{
    char *text;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    assert_non_null(f);
    fprintf(f, "{\"vips\":[");
    for (unsigned v = 0; v < vips; v++) {
        fprintf(f, "%s{\"address\":\"10.0.0.%u\",\"port\":%u,\"servers\":[", v != 0 ? "," : "", 1 + v % addrs, 1 + v);
        for (unsigned s = 0; s < servers; s++) {
            fprintf(f, "%s{\"address\":\"10.1.%u.%u\"}", s != 0 ? "," : "", s / 256, s % 256);
        }
        fprintf(f, "]}");
    }
    fprintf(f, "]}");
    fclose(f);
    return text;
}

static bool takes(unsigned vips, unsigned servers, unsigned addrs)
{
    char *text = document(vips, servers, addrs);
    bool taken = lb_config_parse(text, strlen(text), &c, &error);
    free(text);
    return taken;
}

static void a_document_has_its_limits(void **state)
{
    (void)state;
    assert_true(takes(256, 0, 15));
    assert_int_equal(c.n_addrs, 15);
    lb_config_free(&c);
    assert_false(takes(257, 0, 15));
    assert_string_equal(error.field, "vips");
    assert_false(takes(16, 0, 16));
    at("vips[15].address", "is one more than the 15 different addresses a port can have");
    assert_true(takes(4, 4096, 1));
    assert_int_equal(c.n_servers, 16384);
    lb_config_free(&c);
    assert_false(takes(1, 4097, 1));
    assert_string_equal(error.field, "vips[0].servers");
    assert_false(takes(5, 3277, 1));
    at("vips", "have 16385 servers; at most 16384 can be probed");
}

static void a_port_serves_the_families_it_has_addresses_of(void **state)
{
    static const char both[] = "{\"vips\":[{\"address\":\"10.0.0.9\",\"port\":80,\"servers\":[]},"
                               "{\"address\":\"fd00::9\",\"port\":80,\"servers\":[]}]}";
    struct bt_addr own[2] = {bt_addr_v4u(0x0a000002, 8470), {.ip = {0xfd, [15] = 2}, .port = 8470}}, six = own[1];
    (void)state;
    read_good(both, &c);
    assert_true(lb_config_fits(&c, own, 2, &error));
    assert_false(lb_config_fits(&c, own, 1, &error));
    at("vips[1].address", "needs a balancer with an IPv6 address of its own; give --address6");
    assert_false(lb_config_fits(&c, &six, 1, &error));
    at("vips[0].address", "needs a balancer with an IPv4 address of its own; give --address");
    own[1].ip[15] = 9;
    assert_false(lb_config_fits(&c, own, 2, &error));
    at("vips[1].address", "is the balancer's own; a VIP needs another one");
    lb_config_free(&c);
    own[1].ip[15] = 2;
    own[0] = bt_addr_v4u(0x0a0000ff, 8470);
    assert_true(takes(15, 0, 15));
    assert_true(lb_config_fits(&c, own, 1, &error));
    assert_false(lb_config_fits(&c, own, 2, &error)); // a port has 16
    at("vips", "have 15 different addresses; with 2 own ones 14 do");
    lb_config_free(&c);
    assert_true(takes(14, 0, 14));
    assert_true(lb_config_fits(&c, own, 2, &error));
    lb_config_free(&c);
}

#define VIP(more)      "{\"address\":\"10.0.0.9\",\"port\":80," more "}"
#define DOC(vip)       "{\"vips\":[" vip "]}"
#define OPTION(o, vip) "{\"option\":" o ",\"vips\":[" vip "]}"
#define NOBODY         "\"servers\":[]"

static void servers_and_probes_may_change_while_it_runs_and_the_rest_may_not(void **state)
{
    static const char differs[] = "differs in more than its servers; restart instead";
    static const char option[] = "cannot change while running; restart instead";
    static const struct {
        const char *old, *new, *field, *message;
    } rows[] = {
        {DOC(VIP(NOBODY)), DOC(VIP("\"servers\":[{\"address\":\"10.0.0.3\"}]")), NULL, NULL},
        {DOC(VIP(NOBODY)), "{\"probe\":{\"failures\":9},\"vips\":[" VIP(NOBODY) "]}", NULL, NULL},
        {DOC(VIP(NOBODY)), OPTION("{\"kind\":43}", VIP(NOBODY)), "option", option},
        {OPTION("{\"kind\":253,\"experiment\":1}", VIP(NOBODY)), OPTION("{\"kind\":253,\"experiment\":2}", VIP(NOBODY)),
         "option", option},
        {DOC(VIP(NOBODY)), DOC(VIP(NOBODY) ",{\"address\":\"10.0.0.8\",\"port\":80," NOBODY "}"), "vips",
         "has 2 VIPs where 1 are served; restart instead (connections do not notice)"},
        {DOC(VIP(NOBODY)), DOC(VIP(NOBODY ",\"policy\":\"Hash\"")), "vips[0]", differs},
        {DOC(VIP(NOBODY)), DOC(VIP(NOBODY ",\"fallback\":\"Drop\"")), "vips[0]", differs},
        {DOC(VIP(NOBODY)), DOC(VIP(NOBODY ",\"clients\":\"AssumeCapable\"")), "vips[0]", differs},
        {DOC(VIP(NOBODY)), DOC("{\"address\":\"10.0.0.8\",\"port\":80," NOBODY "}"), "vips[0]", differs},
        {DOC(VIP(NOBODY)), DOC("{\"address\":\"10.0.0.9\",\"port\":81," NOBODY "}"), "vips[0]", differs},
        {DOC("{\"address\":\"10.0.0.8\",\"port\":80," NOBODY "}," VIP(NOBODY)),
         DOC("{\"address\":\"10.0.0.8\",\"port\":80," NOBODY "}," VIP(NOBODY ",\"policy\":\"Hash\"")), "vips[1]",
         differs},
    };
    struct lb_config new;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        read_good(rows[i].old, &c);
        read_good(rows[i].new, &new);
        bool may = lb_config_may_follow(&c, &new, &error);
        assert_int_equal(may, rows[i].field == NULL);
        if (!may) {
            at(rows[i].field, rows[i].message);
        }
        lb_config_free(&c);
        lb_config_free(&new);
    }
}

// --- files in a folder of their own

static char dir[64], file[80];

static int make_folder(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/crab_lb_files.XXXXXX");
    return mkdtemp(dir) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"key", "previous", "lb.json"};
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        snprintf(file, sizeof file, "%s/%s", dir, names[i]);
        (void)unlink(file);
    }
    return rmdir(dir);
}

static void write_file(const char *name, const char *text)
{
    snprintf(file, sizeof file, "%s/%s", dir, name);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void a_document_is_read_from_its_file(void **state)
{
    (void)state;
    c.n_vips = 7;
    snprintf(file, sizeof file, "%s/lb.json", dir);
    assert_false(lb_config_read(file, &c, &error));
    assert_int_equal(c.n_vips, 0); // there is nothing to free, as after every refusal
    assert_null(c.vips);
    assert_non_null(strstr(error.message, "/lb.json: No such file"));
    write_file("lb.json", DOC(VIP(NOBODY)));
    assert_true(lb_config_read(file, &c, &error));
    assert_int_equal(c.n_vips, 1);
    lb_config_free(&c);
    write_file("lb.json", "{}");
    assert_false(lb_config_read(file, &c, &error));
    at("vips", "is required");
}

#define K16 "0123456789abcdef"
#define K64 K16 K16 K16 K16

static void keys_are_16_to_64_bytes_and_the_previous_one_may_be_missing(void **state)
{
    static const struct {
        const char *key, *previous;
        uint32_t len, previous_len;
    } good[] = {{K16, NULL, 16, 0},          {K16 "\r\n", "", 16, 0},        {K64, K16 "\n\n", 64, 16},
                {K16 "\n" K16, K64, 33, 64}, {K16 "\t", K16 "\v\r", 17, 17}, {K64 "\n\r\n\r\n\r\n", K16, 64, 16}};
    struct bt_crab_secret s[BT_CRAB_SECRETS];
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        write_file("key", good[i].key);
        if (good[i].previous != NULL) {
            write_file("previous", good[i].previous);
        }
        assert_true(lb_keys_read(dir, s, &error));
        assert_int_equal(s[0].len, good[i].len);
        assert_memory_equal(s[0].bytes, good[i].key, good[i].len);
        assert_int_equal(s[1].len, good[i].previous_len);
        assert_memory_equal(s[1].bytes, good[i].previous, good[i].previous_len);
    }
}

static void a_wrong_key_leaves_the_keys_as_they_were(void **state)
{
    static const char *const bad[] = {
        "", "\n", "0123456789abcde", "0123456789abcde\n", K64 "0", K64 "\n\n\n\n\n\n\n\n"};
    struct bt_crab_secret s[BT_CRAB_SECRETS] = {{.len = 5}, {.len = 6}};
    char want[200];
    (void)state;
    write_file("key", K16);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_file("key", bad[i]);
        assert_false(lb_keys_read(dir, s, &error));
        snprintf(want, sizeof want, "%s/key must hold a key of 16 to 64 bytes", dir);
        at("key-dir", want);
        write_file("key", K16);
        write_file("previous", bad[i]);
        assert_int_equal(lb_keys_read(dir, s, &error), i == 0); // an empty one is none
        if (i == 0) {
            s[0].len = 5;
            s[1].len = 6;
        }
        assert_int_equal(s[0].len, 5);
        assert_int_equal(s[1].len, 6);
    }
    snprintf(want, sizeof want, "%s/key", dir);
    assert_int_equal(unlink(want), 0);
    assert_false(lb_keys_read(dir, s, &error));
    snprintf(want, sizeof want, "cannot read %s/key: No such file or directory", dir);
    at("key-dir", want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_has_its_limits),
        cmocka_unit_test(a_port_serves_the_families_it_has_addresses_of),
        cmocka_unit_test(servers_and_probes_may_change_while_it_runs_and_the_rest_may_not),
        cmocka_unit_test_setup_teardown(a_document_is_read_from_its_file, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(keys_are_16_to_64_bytes_and_the_previous_one_may_be_missing, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_wrong_key_leaves_the_keys_as_they_were, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
