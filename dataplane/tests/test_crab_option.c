// SPDX-License-Identifier: Apache-2.0
// The redirect option as the programs read and write it (C-1..C-9), for IPv4 and,
// built with CRAB_SIX, for IPv6: vectors/crab_option.txt and crab_option6.txt.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"
#include "../bpf/crab_option.h"

#ifdef CRAB_SIX
#define VECTORS BT_VECTORS "/crab_option6.txt"
#else
#define VECTORS BT_VECTORS "/crab_option.txt"
#endif

static const char *const forms[] = {"none", "placeholder", "redirect", "fallback"};

static size_t bytes_of(const char *hex, unsigned char *to, size_t room)
{
    size_t n = 0;
    for (; hex[2 * n] && hex[2 * n] != '-'; n++) {
        unsigned value;
        assert_true(n < room && sscanf(hex + 2 * n, "%2x", &value) == 1);
        to[n] = (unsigned char)value;
    }
    return n;
}

static void hex_of(const void *bytes, size_t size, char *to)
{
    for (size_t i = 0; i < size; i++) {
        snprintf(to + 2 * i, 3, "%02x", ((const unsigned char *)bytes)[i]);
    }
}

/* read KIND EXID AREA -> FORM AT SIZE NOTES NAMED: an address, or the digest of a fall-back mark */
static void reads(const char *line)
{
    unsigned kind, exid;
    char area[96], want[96], got[160], named[40] = "-";
    struct crab_options o = {0};

    assert_int_equal(sscanf(line, "read %x %x %95s %95[^\n]", &kind, &exid, area, want), 4);
    o.kind = (__u8)kind;
    o.exid = (__u16)exid;
    o.len = (__u32)bytes_of(area, o.bytes, CRAB_OPTIONS_MAX);
    crab_option_find(&o);
    crab_addr addr = crab_option_addr(&o);
    if (o.form == CRAB_FORM_FALLBACK) {
        hex_of(&o.addr, sizeof(o.addr), named);
    } else if (o.form != CRAB_FORM_NONE) {
        hex_of(&addr, sizeof(addr), named);
    }
    snprintf(got, sizeof(got), "%s %u %u %u %s", forms[o.form], o.at, o.size, o.notes, named);
    if (strcmp(got, want)) {
        fail_msg("%s\ngot %s", line, got);
    }
}

/* write KIND EXID FORM ADDRESS -> BYTES */
static void writes(const char *line)
{
    unsigned kind, exid;
    char form[16], hex[40], want[96], got[96] = "";
    unsigned char room[CRAB_OPTION_ROOM] = {0};
    crab_addr addr;

    assert_int_equal(sscanf(line, "write %x %x %15s %39s %95s", &kind, &exid, form, hex, want), 5);
    assert_int_equal(bytes_of(hex, (unsigned char *)&addr, sizeof(addr)), sizeof(addr));
    __u8 f = CRAB_FORM_NONE;
    while (strcmp(forms[f], form)) {
        f++;
    }
    crab_option_write(room, (__u8)kind, (__u16)exid, f, addr);
    hex_of(room, f == CRAB_FORM_FALLBACK ? CRAB_FALLBACK_ROOM : CRAB_OPTION_ROOM, got);
    if (strcmp(got, want)) {
        fail_msg("%s\ngot %s", line, got);
    }
}

static void test_vectors(void **state)
{
    char line[256];
    int lines = 0;
    FILE *f = fopen(VECTORS, "r");

    (void)state;
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "read ", 5)) {
            reads(line);
        } else if (!strncmp(line, "write ", 6)) {
            writes(line);
        } else {
            assert_true(line[0] == '#' || line[0] == 0);
        }
        lines += line[0] == 'r' || line[0] == 'w';
    }
    fclose(f);
    assert_true(lines > 20);
}

/* C-4: whatever stands there, the reading ends inside the area, and what it found lies in it. */
static void test_garbage_ends(void **state)
{
    (void)state;
    srand(9);
    int found = 0, malformed = 0;
    for (int turn = 0; turn < 200000; turn++) {
        struct crab_options o = {.kind = turn & 1 ? CRAB_KIND : CRAB_KIND_EXPERIMENT1, .exid = 0x1234};
        o.len = (__u32)(rand() % 11 * 4);
        for (__u32 i = 0; i < o.len; i++) {
            o.bytes[i] = (__u8)(rand() % 2 ? rand() % 22 : rand() % 4 ? o.kind : rand());
        }
        if (o.len >= 4 && turn & 4) { /* a good beginning, so that forms are met, too */
            const __u8 good[] = {o.kind, (__u8)(turn & 8 ? CRAB_OPTION_ROOM : CRAB_OPTION_ROOM - 2), 0x12, 0x34};
            memcpy(o.bytes, good, sizeof(good));
        }
        crab_option_find(&o);
        assert_true(o.cursor <= o.len);
        if (o.form != CRAB_FORM_NONE) {
            found++;
            assert_true(o.at + o.size <= o.len && o.bytes[o.at] == o.kind && o.bytes[o.at + 1] == o.size);
            (void)crab_option_addr(&o);
        }
        malformed += (o.notes & CRAB_NOTE_MALFORMED) != 0;
    }
    assert_true(found > 1000 && malformed > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors), cmocka_unit_test(test_garbage_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
