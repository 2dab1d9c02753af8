// SPDX-License-Identifier: Apache-2.0
// The option as the node's eBPF programs read and write it: vectors/crab_option.txt and crab_option6.txt, which
// test_crab_option.c and operator/internal/redirect read too (C-1 to C-4, C-7, C-9). The programs' mark for hashed
// connections ("fallback") is nothing to this balancer, which leaves the addresses of those alone (C-42).
#include "syn.h"
#include "unit.h"

#include "base/bytes.h"

#include <stdio.h>
#include <string.h>

enum { MALFORMED = 1, DUPLICATE = 2 };

static uint32_t bytes_of(const char *hex, uint8_t *to, uint32_t room)
{
    uint32_t n = 0;
    for (; hex[2 * n] != '\0' && hex[2 * n] != '-'; n++) {
        unsigned value;
        assert_true(n < room && sscanf(hex + 2 * n, "%2x", &value) == 1);
        to[n] = (uint8_t)value;
    }
    return n;
}

static struct bt_addr address_of(const char *hex)
{
    struct bt_addr a = {.ip = {0}};
    uint8_t bytes[16];
    uint32_t n = bytes_of(hex, bytes, sizeof bytes);
    assert_int_equal(n, syn_six ? 16 : 4);
    if (!syn_six) {
        return bt_addr_v4(bytes, 0);
    }
    memcpy(a.ip, bytes, sizeof bytes);
    return a;
}

static struct bt_crab_encoding encoding(unsigned kind, unsigned experiment)
{
    return (struct bt_crab_encoding){.kind = (uint8_t)kind, .experiment = (uint16_t)experiment};
}

// read KIND EXID AREA FORM AT SIZE NOTES NAMED
static void reads(const char *line)
{
    unsigned kind, exid, at, size, notes;
    char area[96], form[16], named[40];
    uint8_t options[40], p[SYN_MOST];
    struct bt_crab_segment s;
    struct syn syn = syn_plain();
    assert_int_equal(
        sscanf(line, "read %x %x %95s %15s %u %u %u %39s", &kind, &exid, area, form, &at, &size, &notes, named), 8);
    struct bt_crab_encoding enc = encoding(kind, exid);
    syn.options = options;
    syn.options_len = bytes_of(area, options, sizeof options);
    assert_int_equal(bt_crab_segment_parse(p, syn_write(&syn, p), true, &enc, &s), BT_CRAB_SEGMENT_OK);
    bool redirect = strcmp(form, "redirect") == 0, placeholder = strcmp(form, "placeholder") == 0;
    if ((s.option != 0) != (redirect || placeholder) || s.malformed != ((notes & MALFORMED) != 0)) {
        fail_msg("%s\noption at %u, malformed %d", line, s.option, s.malformed);
    }
    if (s.option == 0) {
        return;
    }
    struct bt_addr want = address_of(named);
    assert_int_equal(s.option, BT_TCP_HEAD + at + (kind < 253 ? 2 : 4));
    assert_true(bt_addr_ip_eq(&s.address, &want));
    assert_int_equal(s.named, redirect);
    if (strstr(area, "2a08") == NULL) {
        assert_int_equal(s.duplicates != 0, (notes & DUPLICATE) != 0);
    }
}

// write KIND EXID FORM ADDRESS BYTES
static void writes(const char *line)
{
    unsigned kind, exid;
    char form[16], hex[40], want[96];
    uint8_t wanted[40], option[40];
    assert_int_equal(sscanf(line, "write %x %x %15s %39s %95s", &kind, &exid, form, hex, want), 5);
    if (strcmp(form, "fallback") == 0) {
        return;
    }
    struct bt_crab_encoding enc = encoding(kind, exid);
    struct bt_addr addr = address_of(hex);
    uint32_t n = bytes_of(want, wanted, sizeof wanted);
    assert_int_equal(n, syn_six ? BT_CRAB_PADDED6 : BT_CRAB_PADDED);
    bt_crab_write_option(option, &enc, &addr);
    assert_memory_equal(option, wanted, n);
}

static void c9_the_programs_vectors_are_read_and_written_alike(void **state)
{
    (void)state;
    char line[256];
    int lines = 0;
    FILE *f = fopen(syn_six ? BT_VECTORS "/crab_option6.txt" : BT_VECTORS "/crab_option.txt", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "read ", 5) == 0) {
            reads(line);
        } else if (strncmp(line, "write ", 6) == 0) {
            writes(line);
        }
        lines += line[0] == 'r' || line[0] == 'w';
    }
    fclose(f);
    assert_true(lines > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(c9_the_programs_vectors_are_read_and_written_alike)};
    int four = cmocka_run_group_tests_name("IPv4", tests, syn_four_group, NULL);
    return four + cmocka_run_group_tests_name("IPv6", tests, syn_six_group, NULL);
}
