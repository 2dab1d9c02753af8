// SPDX-License-Identifier: Apache-2.0
// What a link refuses to be set up with, and MACs and prefixes as text.
#include "bed.h"

#include <stdlib.h>
#include <string.h>

static struct bed b;

static void refused(const char *field, unsigned index)
{
    struct bt_link_error err = {0};
    size_t bytes = bt_link_bytes(&b.c);
    void *mem = aligned_alloc(64, (bytes + 63) / 64 * 64);
    struct bt_link *l = bt_link_init(mem, bytes, &b.c, 0, &err);
    assert_null(l);
    assert_string_equal(err.field, field);
    assert_int_equal(err.index, index);
    assert_true(err.problem != NULL && strlen(err.problem) > 5); // in words
    free(mem);
    free(b.slab);
    bed_plan(&b);
}

static void e16_every_field_is_judged(void **state)
{
    (void)state;
    bed_plan(&b);
    b.c.mac[0] = 1, refused("mac", 0);
    memset(b.c.mac, 0, 6), refused("mac", 0);
    b.c.mtu = 1279, refused("mtu", 0);
    b.c.mtu = 9001, refused("mtu", 0);
    b.c.n_addrs = 0, refused("addrs", 0);
    b.addrs[1].addr = addr("ff02::5"), refused("addrs", 1);
    b.addrs[1].addr = addr("::1"), refused("addrs", 1);
    b.addrs[0].addr = addr("127.0.0.5"), refused("addrs", 0);
    b.addrs[0].bits = 33, refused("addrs", 0);
    b.addrs[1].bits = 0, refused("addrs", 1);
    b.addrs[1] = b.addrs[0], refused("addrs", 1);
    b.addrs[0].addr = addr("10.0.0.255"), b.c.n_locals = 0, refused("addrs", 0); // its network's broadcast address
    b.c.gateway4 = addr("10.0.0.2"), refused("gateway4", 0);                     // our own
    b.c.gateway6 = addr("fd00::2"), refused("gateway6", 0);
    b.c.gateway4 = addr("10.0.0.255"), refused("gateway4", 0);
    b.c.gateway4 = addr("fd00::1"), refused("gateway4", 0);
    b.c.gateway6 = addr("10.0.0.1"), refused("gateway6", 0);
    b.c.n_addrs = 1, b.c.n_locals = 1, refused("gateway6", 0); // no IPv6 address to reach it from
    b.locals[2] = addr("10.0.0.3:80"), refused("locals", 2);
    b.locals[2] = addr("[fe80::5]:80"), refused("locals", 2);
    b.locals[3] = b.locals[2], refused("locals", 3);
    b.c.n_locals = 1025, refused("locals", 0);
    b.c.max_neighbours = 7, refused("max_neighbours", 0);
    struct bt_link_static s = {.ip = addr("10.0.0.9"), .mac = {1}};
    b.c.statics = &s, b.c.n_statics = 1, refused("statics", 0);
    memcpy(s.mac, our_mac, 6), b.c.statics = &s, b.c.n_statics = 1, refused("statics", 0);
    struct bt_link_static group = {.ip = addr("224.0.0.9"), .mac = {2, 9}};
    b.c.statics = &group, b.c.n_statics = 1, refused("statics", 0);
    b.addrs[0] = b.addrs[1], b.c.n_addrs = 1, refused("gateway4", 0); // no IPv4 address to reach it from
    b.c.tries = 101, refused("tries", 0);
    b.c.pool = NULL, refused("pool", 0);
    free(b.slab);
}

static void taken(void)
{
    struct bt_link_error err = {0};
    size_t bytes = bt_link_bytes(&b.c);
    void *mem = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (bt_link_init(mem, bytes, &b.c, 0, &err) == NULL) {
        fail_msg("%s %u %s", err.field, err.index, err.problem);
    }
    free(mem);
    free(b.slab);
    bed_plan(&b);
}

// The last that is taken and the first that is not.
static void e16_bounds(void **state)
{
    (void)state;
    static struct bt_link_static statics[5];
    static struct bt_addr ports[1025];
    for (unsigned i = 0; i < 5; i++) {
        statics[i] = (struct bt_link_static){.ip = bt_addr_v4u(0x0a000014 + i, 0), .mac = {2, 0, 0, 0, 1, (uint8_t)i}};
    }
    for (unsigned i = 0; i < 1025; i++) {
        ports[i] = bt_addr_v4u(0x0a000002, (uint16_t)(2000 + i));
    }
    bed_plan(&b);
    taken();
    b.c.mtu = 1280, taken();
    b.c.mtu = 9000, taken();
    b.c.n_addrs = 1, b.c.n_locals = 1, b.c.no_link_local = true, b.c.gateway6 = (struct bt_addr){0}, b.c.mtu = 576,
    taken();
    b.c.n_addrs = 1, b.c.n_locals = 1, b.c.no_link_local = true, b.c.gateway6 = (struct bt_addr){0}, b.c.mtu = 575,
    refused("mtu", 0);
    b.c.tries = 100, taken();
    b.c.max_neighbours = 8, taken();
    b.c.max_neighbours = 1u << 20, taken();
    b.c.max_neighbours = (1u << 20) + 1, refused("max_neighbours", 0);
    b.c.max_neighbours = 8, b.c.statics = statics, b.c.n_statics = 4, taken();
    b.c.max_neighbours = 8, b.c.statics = statics, b.c.n_statics = 5, refused("statics", 0);
    b.c.locals = ports, b.c.n_locals = 1024, taken();
    b.c.locals = ports, b.c.n_locals = 1025, refused("locals", 0);
    statics[3].mac[0] = 3, b.c.statics = statics, b.c.n_statics = 4, refused("statics", 3);
    free(b.slab);
}

static void e16_memory_is_measured(void **state)
{
    (void)state;
    bed_plan(&b);
    struct bt_link_error err;
    size_t bytes = bt_link_bytes(&b.c);
    void *mem = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_null(bt_link_init(mem, bytes - 1, &b.c, 0, &err));
    assert_string_equal(err.field, "mem");
    assert_non_null(bt_link_init(mem, bytes, &b.c, 0, NULL));
    free(mem);
    free(b.slab);
}

static void e1_macs(void **state)
{
    (void)state;
    uint8_t mac[6];
    char text[BT_LINK_MAC_TEXT];
    assert_int_equal(bt_link_mac_parse("02:aB:00:10:fF:9e", mac), 0);
    assert_string_equal(bt_link_mac_format(mac, text), "02:ab:00:10:ff:9e");
    const char *bad[] = {"",
                         "02:ab:00:10:ff",
                         "02:ab:00:10:ff:9",
                         "02:ab:00:10:ff:9e:",
                         "02-ab-00-10-ff-9e",
                         "2:ab:00:10:ff:9e0",
                         "02:ab:00:10:ff:9g",
                         "0",
                         "02",
                         "0/:ab:00:10:ff:9e", // what stands beside the digits
                         "0::ab:00:10:ff:9e",
                         "0`:ab:00:10:ff:9e",
                         "0@:ab:00:10:ff:9e",
                         "02:ab:00:10:ff:9G"};
    const uint8_t before[6] = {0x02, 0xab, 0x00, 0x10, 0xff, 0x9e};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(bt_link_mac_parse(bad[i], mac), -1);
        assert_memory_equal(mac, before, sizeof before); // untouched
    }
    const char *good[] = {"01:23:45:67:89:ab", "cd:ef:fe:dc:ba:98", "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(bt_link_mac_parse(good[i], mac), 0);
        assert_string_equal(bt_link_mac_format(mac, text), good[i]);
    }
}

static void e16_prefixes(void **state)
{
    (void)state;
    struct bt_link_prefix p;
    assert_int_equal(bt_link_prefix_parse("fd00::2/128", &p), 0);
    assert_true(p.bits == 128 && p.addr.port == 0);
    assert_int_equal(bt_link_prefix_parse("10.1.2.3/1", &p), 0);
    assert_true(p.bits == 1 && p.addr.port == 0);
    const char *bad[] = {"10.0.0.1",       "10.0.0.1/",     "10.0.0.1/33",   "10.0.0.1/0", "10.0.0.1/08",
                         "10.0.0.1:80/24", "fd00::1/129",   "[fd00::1]/64",  "/24",        "fd00::1/6x",
                         "10.0.0/24",      "10.0.0.1/1000", "[fd00::1]:1/64"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(bt_link_prefix_parse(bad[i], &p), -1);
        assert_int_equal(p.bits, 1); // untouched
    }
    static const struct {
        const char *text, *ip;
        uint8_t bits;
    } good[] = {{"10.0.0.1/32", "10.0.0.1", 32}, {"10.0.0.1/9", "10.0.0.1", 9},   {"10.0.0.1/10", "10.0.0.1", 10},
                {"fd00::9/64", "fd00::9", 64},   {"fd00::9/100", "fd00::9", 100}, {"::/1", "::", 1}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct bt_addr want = addr(good[i].ip);
        assert_int_equal(bt_link_prefix_parse(good[i].text, &p), 0);
        assert_int_equal(p.bits, good[i].bits);
        assert_true(bt_addr_ip_eq(&p.addr, &want));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(e16_every_field_is_judged),
        cmocka_unit_test(e16_bounds),
        cmocka_unit_test(e16_memory_is_measured),
        cmocka_unit_test(e1_macs),
        cmocka_unit_test(e16_prefixes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
