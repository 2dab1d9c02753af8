// SPDX-License-Identifier: Apache-2.0
// What lies in CRAB's maps, byte by byte: the same vectors are read by
// operator/internal/redirect (Go). A difference means a new CRAB_LAYOUT_VERSION.
// Built with CRAB_SIX it looks at the IPv6 maps.
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"
#include "../bpf/crab_layout.h"

#ifdef CRAB_SIX
#define VECTORS     BT_VECTORS "/crab_layout6.txt"
#define ADDRESS(at) {{at##u, ~at##u, at##u ^ 0x0f0f0f0fu, at##u ^ 0xf0f0f0f0u}}
#else
#define VECTORS     BT_VECTORS "/crab_layout.txt"
#define ADDRESS(at) at
#endif

static char text[8192];

static void line(const char *name, const void *bytes, size_t size)
{
    size_t at = strlen(text);
    at += (size_t)snprintf(text + at, sizeof(text) - at, "%s ", name);
    for (size_t i = 0; i < size; i++) {
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%02x", ((const unsigned char *)bytes)[i]);
    }
    snprintf(text + at, sizeof(text) - at, "\n");
}

static void number(const char *name, size_t value)
{
    size_t at = strlen(text);
    snprintf(text + at, sizeof(text) - at, "%s %zu\n", name, value);
}

#define LINE(name, type, ...)                                                                                          \
    do {                                                                                                               \
        struct type sample = {__VA_ARGS__};                                                                            \
        line(name, &sample, sizeof(sample));                                                                           \
    } while (0)

static void samples(void)
{
    const struct crab_tuple tuple = {
        .client = ADDRESS(0x01020304), .server = ADDRESS(0x05060708), .client_port = 0x090a, .server_port = 0x0b0c};

    LINE("meta", crab_meta, .magic = CRAB_LAYOUT_MAGIC, .layout = CRAB_LAYOUT_VERSION,
         .dsr_seen_ns = 0x1112131415161718, .exid = 0x191a, .kind = 0x1b);
    LINE("vip_key", crab_vip_key, .addr = ADDRESS(0x01020304), .port = 0x0506);
    LINE("vip", crab_vip, .id = 0x01020304, .policy = 5, .flags = 6, .report_life_ns = 0x1112131415161718);
    LINE("backend", crab_backend, .addr = ADDRESS(0x04030201), .load = 0x0506, .weight = 0x0708, .state = 9);
    LINE("load", crab_load, .open = 0x01020304, .assigned = 0x05060708, .reported_ns = 0x1112131415161718);
    LINE("prefix_key", crab_prefix_key, .prefixlen = 32 + 8 * sizeof(crab_addr), .vip_id = 0x05060708,
         .addr = ADDRESS(0x090a0b0c));
    line("tuple", &tuple, sizeof(tuple));
    LINE("pending", crab_pending, .first_ns = 0x0102030405060708, .last_ns = 0x1112131415161718, .iss = 0x191a1b1c,
         .syns = 0x1d1e, .marked = 0x1f, .direct = 0x20);
    LINE("connect_key", crab_connect_key, .addr = ADDRESS(0x01020304), .port = 0x0506, .bucket = 0x0708);
    LINE("flow", crab_flow, .created_s = 0x05060708, .ack = 0x01020304, .last_ns = 0x1112131415161718,
         .dip = ADDRESS(0x191a1b1c), .iss = 0x1d1e1f20, .ended = 0x21, .hop_seen = 0x22,
         .hop = {0x23, 0x24, 0x25, 0x26, 0x27, 0x28});
    LINE("reverse", crab_reverse, .vip = ADDRESS(0x01020304));
    LINE("echo", crab_echo, .last_ns = 0x0102030405060708, .vip = ADDRESS(0x11121314), .iss = 0x15161718);
    LINE("opening", crab_opening, .last_ns = 0x0102030405060708, .vip = ADDRESS(0x11121314), .iss = 0x15161718,
         .isn = 0x191a1b1c, .fallback = 0x1d, .answered = 0x1e);
    LINE("relay", crab_relay, .last_ns = 0x0102030405060708, .dip = ADDRESS(0x11121314), .next_out = 0x15161718,
         .next_back = 0x191a1b1c, .place = 0x1d1e, .port = 0x1f20, .ended = 0x21, .opened = 0x22, .answered = 0x23);
    LINE("relay_back", crab_relay_back, .client = ADDRESS(0x01020304), .port = 0x0506);
    LINE("tunnel", crab_tunnel, .from = ADDRESS(0x01020304), .to = ADDRESS(0x05060708));
    LINE("syn_key", crab_syn_key, .tuple = tuple, .iss = 0x0d0e0f10);
    LINE("syn", crab_syn, .seen_ns = 0x0102030405060708, .dip = ADDRESS(0x11121314), .place = 0x1516,
         .undelivered = 0x17);
    struct crab_fallen fallen = {.next = 0x2d2e2f30};
    for (__u32 i = 0; i < CRAB_FALLEN_KEPT; i++) {
        fallen.last[i] = (struct crab_fell){.at_ns = 0x0102030405060708, .who = tuple, .reason = 0x31323300 + i};
    }
    line("fallen", &fallen, sizeof(fallen));
    number("pool.size", sizeof(struct crab_pool));
    number("pool.backend", offsetof(struct crab_pool, backend));
    number("pool.schedule", offsetof(struct crab_pool, schedule));
    number("pool.maglev", offsetof(struct crab_pool, maglev));
}

static void test_layout_is_the_one_of_the_vectors(void **state)
{
    char want[sizeof(text)] = "";
    FILE *f = fopen(VECTORS, "r");

    (void)state;
    assert_non_null(f);
    want[fread(want, 1, sizeof(want) - 1, f)] = 0;
    fclose(f);
    samples();
    char *body = strstr(want, "meta ");
    assert_non_null(body);
    assert_string_equal(text, body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layout_is_the_one_of_the_vectors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
