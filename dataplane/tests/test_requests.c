// SPDX-License-Identifier: Apache-2.0
// D-5: where requests end in the four protocols, whole and in single bytes, and what is refused.
#include <string.h>

#include "unit.h"

#include "wire/requests.h"

enum { MAX = 200 };

/* How many requests a stream has, when it comes in pieces of `step`; *last is what was said at its end. */
static unsigned frames(enum bt_framing framing, const char *text, size_t n, size_t step, enum bt_framed *last)
{
    struct bt_framer f;
    unsigned found = 0;
    size_t from = 0, there = 0;
    bt_framer_init(&f, framing, MAX);
    for (;;) {
        uint32_t len = 0;
        *last = bt_framer_next(&f, (const uint8_t *)text + from, (uint32_t)(there - from), &len);
        if (*last == BT_FRAMED_WHOLE) {
            from += len;
            found++;
        } else if (*last != BT_FRAMED_MORE || there == n) {
            assert_true(*last != BT_FRAMED_MORE || from <= n);
            return found;
        } else {
            there = n - there < step ? n : there + step;
        }
    }
}

static void expect(enum bt_framing framing, const char *text, size_t n, unsigned whole, enum bt_framed last)
{
    for (size_t step = 1; step <= n + 1; step += step < 4 ? 1 : n) {
        enum bt_framed said;
        assert_int_equal(frames(framing, text, n, step, &said), whole);
        assert_int_equal(said, last);
    }
}

#define EXPECT(framing, text, whole, last) expect((framing), (text), sizeof(text) - 1, (whole), BT_FRAMED_##last)

static void test_d5_resp(void **state)
{
    (void)state;
    EXPECT(BT_FRAMING_RESP, "*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n", 2, MORE);
    EXPECT(BT_FRAMING_RESP, "*2\r\n$3\r\nGET\r\n$3\r\na\r\n", 0, MORE);
    EXPECT(BT_FRAMING_RESP, "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPINGx\n", 1, MALFORMED);
    EXPECT(BT_FRAMING_RESP, "PING\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_RESP, "*0\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_RESP, "*-1\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_RESP, "*1\r\n:1\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_RESP, "*1\n$4\r\nPING\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_RESP, "*1\r\n$4294967296\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_RESP, "*1\r\n$500\r\n", 0, TOO_LONG);
    EXPECT(BT_FRAMING_RESP, "*9999999\r\n", 0, TOO_LONG);
}

static void test_d5_http(void **state)
{
    (void)state;
    EXPECT(BT_FRAMING_HTTP, "GET / HTTP/1.1\r\nHost: a\r\n\r\nPOST /b HTTP/1.1\r\ncontent-length:  3 \r\n\r\nabc", 2,
           MORE);
    EXPECT(
        BT_FRAMING_HTTP,
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=1\r\nabc\r\n0\r\nT: 1\r\n\r\nGET / HTTP/1.0\r\n\r\n",
        2, MORE);
    EXPECT(BT_FRAMING_HTTP, "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab", 0, MORE);
    EXPECT(BT_FRAMING_HTTP, "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_HTTP, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_HTTP, "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_HTTP, "POST / HTTP/1.1\r\nContent-Length: +3\r\n\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_HTTP, "POST / HTTP/1.1\r\nContent-Length : 3\r\n\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_HTTP, "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_HTTP, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_HTTP, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_HTTP, "GET / HTTP/1.1\nHost: a\n\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_HTTP, "GET / HTTP/2.0\r\n\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_HTTP,
           "GET / HTTP/1.1\r\nContent-Lengtx: 3\r\nXontent-Length: 3\r\nTransfer-Encodinx: gzip\r\n\r\n", 1, MORE);
    EXPECT(BT_FRAMING_HTTP, "GET / HTTP/1.1\r\nCONTENT-LENGTH:\t3\t \r\n\r\nabc", 1, MORE);
    EXPECT(BT_FRAMING_HTTP, "GET / HTTP/1.2\r\n\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_HTTP, "GET / HTTP/1./\r\n\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_HTTP, "G / HTTP/1.0\r\n\r\n", 1, MORE);
    EXPECT(BT_FRAMING_HTTP, "GET  HTTP/1.1\r\n\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_HTTP, " / / HTTP/1.1\r\n\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_HTTP, "GET/aaaaaaaaaa\r\n\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_HTTP, "GET / HTTP/1.1\r\n: b\r\n\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_HTTP, "GET / HTTP/1.1\r\nab\r\n\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_HTTP, "GET / HTTP/1.1\r\na\x7f: b\r\n\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_HTTP, "GET / HTTP/1.1\r\n~!: b\r\n\r\n", 1, MORE);
    EXPECT(BT_FRAMING_HTTP, "GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_HTTP, "POST / HTTP/1.1\r\nContent-Length: 999\r\n\r\n", 0, TOO_LONG);
}

static void test_d5_memcached(void **state)
{
    (void)state;
    EXPECT(BT_FRAMING_MEMCACHED, "get a b\r\nset k 0 0 5\r\nab\r\nc\r\ndelete k\r\n", 3, MORE);
    EXPECT(BT_FRAMING_MEMCACHED, "set k 0 0 2 noreply\r\nab\r\n", 1, MORE);
    EXPECT(BT_FRAMING_MEMCACHED, "  set   k  0 0   2\r\nab\r\n", 1, MORE); // however far apart the words are
    EXPECT(BT_FRAMING_MEMCACHED, "set k 0 0 5\r\nab", 0, MORE);
    EXPECT(BT_FRAMING_MEMCACHED, "set k 0 0 2\r\nabc\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_MEMCACHED, "set k 0 0 -1\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_MEMCACHED, "set k 0 0\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_MEMCACHED, "\r\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_MEMCACHED, "get a\n", 0, MALFORMED);
    EXPECT(BT_FRAMING_MEMCACHED, "set k 0 0 999\r\n", 0, TOO_LONG);
}

static void test_d5_u32(void **state)
{
    (void)state;
    EXPECT(BT_FRAMING_U32, "\0\0\0\2ab\0\0\0\0\0\0\0\1c", 3, MORE);
    EXPECT(BT_FRAMING_U32, "\0\0\0\2a", 0, MORE);
    EXPECT(BT_FRAMING_U32, "\0\0\0\xc5", 0, TOO_LONG);
    EXPECT(BT_FRAMING_U32, "\xff\xff\xff\xff", 0, TOO_LONG);
}

/* The longest line and the longest request are whole; one byte more is too long, wherever the end would be. */
static void test_d5_longest(void **state)
{
    static const struct {
        enum bt_framing framing;
        const char *head, *tail;
    } forms[] = {{BT_FRAMING_MEMCACHED, "get ", "\r\n"},
                 {BT_FRAMING_MEMCACHED, "set k 0 0 183\r\n", "\r\n"},
                 {BT_FRAMING_HTTP, "GET / HTTP/1.1\r\nA: ", "\r\n\r\n"},
                 {BT_FRAMING_HTTP, "PUT / HTTP/1.1\r\nContent-Length: 161\r\n\r\n", ""},
                 {BT_FRAMING_RESP, "*1\r\n$188\r\n", "\r\n"},
                 {BT_FRAMING_U32, "\1\1\1\1", ""}};
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        char text[MAX + 8];
        size_t head = strlen(forms[i].head), tail = strlen(forms[i].tail);
        memset(text, 'x', sizeof text);
        memcpy(text, forms[i].head, head);
        memcpy(text + MAX - tail, forms[i].tail, tail);
        if (forms[i].framing == BT_FRAMING_U32) {
            memcpy(text, "\0\0\0\xc4", 4);
        }
        expect(forms[i].framing, text, MAX, 1, BT_FRAMED_MORE);
        struct bt_framer f;
        uint32_t len;
        bt_framer_init(&f, forms[i].framing, MAX - 1);
        assert_int_equal(bt_framer_next(&f, (const uint8_t *)text, MAX, &len), BT_FRAMED_TOO_LONG);
    }
}

/* A line without end is refused before it fills memory. */
static void test_d5_endless(void **state)
{
    static const enum bt_framing lines[] = {BT_FRAMING_RESP, BT_FRAMING_HTTP, BT_FRAMING_MEMCACHED};
    char text[MAX * 2];
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        enum bt_framed said;
        memset(text, lines[i] == BT_FRAMING_RESP ? '*' : 'a', sizeof text);
        assert_int_equal(frames(lines[i], text, sizeof text, 1, &said), 0);
        assert_int_equal(said, BT_FRAMED_TOO_LONG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_d5_resp), cmocka_unit_test(test_d5_http),    cmocka_unit_test(test_d5_memcached),
        cmocka_unit_test(test_d5_u32),  cmocka_unit_test(test_d5_endless), cmocka_unit_test(test_d5_longest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
