// SPDX-License-Identifier: Apache-2.0
// Replies of every protocol, whole and byte by byte: the verdict, where they end, and what is refused.
#include "lancet/reply.h"

#include "unit.h"

#include <stdlib.h>
#include <string.h>

// What a peer sends, n bytes in pieces of `step`.
struct sent {
    const char *text;
    size_t n, step;
};

// Feeds it; the state it ends in and how many bytes were used.
static enum bt_reply_state feed(struct bt_reply *r, enum bt_reply_protocol protocol, const struct bt_expect *expect,
                                struct sent in, size_t *used)
{
    enum bt_reply_state s = BT_REPLY_MORE;
    bt_reply_begin(r, protocol, expect);
    for (*used = 0; *used < in.n && s == BT_REPLY_MORE;) {
        size_t part = in.n - *used < in.step ? in.n - *used : in.step;
        size_t took;
        s = bt_reply_feed(r, (const uint8_t *)in.text + *used, part, &took);
        assert_true(took <= part);
        assert_true(s != BT_REPLY_MORE || took == part);
        *used += took;
    }
    assert_int_equal(s == BT_REPLY_BAD, r->bad != NULL && strlen(r->bad) > 10); // what is bad is said in words
    return s;
}

struct reply_case {
    enum bt_reply_protocol protocol;
    struct bt_expect expect;
    enum bt_reply_state state;
    enum bt_reply_verdict verdict;
    const char *text;
    size_t behind; // bytes at the end that belong to the next reply
    bool closes;
};

#define HTTP   BT_REPLY_HTTP, {0}
#define REDIS  BT_REPLY_REDIS, {0}
#define GET    BT_REPLY_MEMCACHED_TEXT, {0}
#define SET    BT_REPLY_MEMCACHED_TEXT, {.opcode = 1}
#define OK     BT_REPLY_DONE, BT_VERDICT_OK
#define MISS   BT_REPLY_DONE, BT_VERDICT_MISS
#define FAILED BT_REPLY_DONE, BT_VERDICT_ERROR
#define BAD    BT_REPLY_BAD, BT_VERDICT_OK
#define MORE   BT_REPLY_MORE, BT_VERDICT_OK

static const struct reply_case cases[] = {
    {HTTP, OK, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP", 4, false},
    {HTTP, OK, "HTTP/1.1 200\r\ncontent-length:0\r\nConnection: x, Close\r\n\r\n", 0, true},
    {HTTP, OK, "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 0, true},
    {HTTP, OK, "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", 0, false},
    {HTTP, OK, "HTTP/1.1 204 No Content\r\n\r\nH", 1, false},
    {HTTP, OK, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 304 Not Modified\r\n\r\n", 0, false},
    {HTTP, OK,
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\nT: v\r\n\r\n+", 1,
     false},
    {HTTP, FAILED, "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", 0, false},
    {HTTP, FAILED, "HTTP/1.1 503 \r\nContent-Length: 0\r\n\r\n", 0, false},
    {HTTP, FAILED, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", 0, false},
    {HTTP, FAILED, "HTTP/1.1 599 \r\nContent-Length: 0\r\n\r\n", 0, false},
    {HTTP, OK, "HTTP/1.1 399 x\r\nContent-Length: 0\r\n\r\n", 0, false},
    {HTTP, OK, "HTTP/1.1 200 OK\r\nContent-Length: \t5\t \r\nConnection:  close , x \r\n\r\nhello", 0, true},
    {HTTP, BAD, "HTTP/1.2 200 OK\r\n", 0, false},
    {HTTP, BAD, "HTTP/1./ 200 OK\r\n", 0, false},
    {HTTP, BAD, "HTTP/0.1 200 OK\r\n", 0, false},
    {HTTP, BAD, "HTTP/1.1x200 OK\r\n", 0, false},
    {HTTP, BAD, "HTTP/1.1 099 OK\r\n", 0, false},
    {HTTP, MORE, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", 0, false},
    {HTTP, BAD, "HTTP/2 200\r\n", 0, false},
    {HTTP, BAD, "HTTP/1.1 20 OK\r\n", 0, false},
    {HTTP, BAD, "HTTP/1.1 2000 OK\r\n", 0, false},
    {HTTP, BAD, "HTTP/1.1 600 OK\r\n", 0, false},
    {HTTP, BAD, "HTTP/1.1 101 Switching Protocols\r\n\r\n", 0, false},
    {HTTP, BAD, "HTTP/1.1 200 OK\n", 0, false},
    {HTTP, BAD, "HTTP/1.1 200 OK\r\nA: b\rc\r\n", 0, false},
    {HTTP, BAD, "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n", 0, false},
    {HTTP, BAD, "HTTP/1.1 200 OK\r\nA : b\r\n", 0, false},
    {HTTP, BAD, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n", 0, false},
    {HTTP, BAD, "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n", 0, false},
    {HTTP, BAD, "HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n", 0, false},
    {HTTP, BAD, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 0, false},
    {HTTP, BAD, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n", 0, false},
    {HTTP, BAD, "HTTP/1.1 200 OK\r\n\r\n", 0, false},
    {HTTP, BAD, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 0, false},
    {HTTP, BAD, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFF\r\n", 0, false},
    {HTTP, BAD, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", 0, false},
    {REDIS, OK, "+OK\r\n+", 1, false},
    {REDIS, OK, ":-9223372036854775808\r\n", 0, false},
    {REDIS, OK, "$5\r\nhe\r\no\r\n$", 1, false},
    {REDIS, OK, "$0\r\n\r\n", 0, false},
    {REDIS, OK, "*0\r\n", 0, false},
    {REDIS, OK, "*3\r\n$1\r\na\r\n*2\r\n:1\r\n$-1\r\n+x\r\n-", 1, false},
    {REDIS, MISS, "$-1\r\n", 0, false},
    {REDIS, MISS, "*-1\r\n", 0, false},
    {REDIS, FAILED, "-ERR unknown command\r\n", 0, false},
    {REDIS, FAILED, "*2\r\n-ERR no\r\n+OK\r\n", 0, false},
    {REDIS, MORE, "*2\r\n:1\r\n", 0, false},
    {REDIS, BAD, "hello\r\n", 0, false},
    {REDIS, BAD, "\r\n", 0, false},
    {REDIS, BAD, "_\r\n", 0, false},
    {REDIS, BAD, "$5\r\nhelloX", 0, false},
    {REDIS, BAD, "$-2\r\n", 0, false},
    {REDIS, BAD, "$\r\n", 0, false},
    {REDIS, BAD, "$999999999\r\n", 0, false},
    {REDIS, BAD, ":12a\r\n", 0, false},
    {REDIS, BAD, ":-\r\n", 0, false},
    {REDIS, BAD, "*1048577\r\n", 0, false},
    {REDIS, BAD, "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", 0, false},
    {GET, OK, "VALUE k 0 5\r\nhe\r\no\r\nEND\r\nV", 1, false},
    {GET, OK, "VALUE k 4294967295 0 18446744073709551615\r\n\r\nEND\r\n", 0, false},
    {GET, MISS, "END\r\n", 0, false},
    {GET, FAILED, "SERVER_ERROR out of memory\r\n", 0, false},
    {GET, FAILED, "ERROR\r\n", 0, false},
    {GET, BAD, "STORED\r\n", 0, false},
    {GET, BAD, "VALUE k 0\r\n", 0, false},
    {GET, BAD, "VALUE k 0 x\r\n", 0, false},
    {GET, BAD, "VALUE  0 1\r\n", 0, false},
    {GET, BAD, "VALUE k 0 1 \r\n", 0, false},
    {GET, BAD, "VALUE k 0 134217729\r\n", 0, false},
    {GET, BAD, "VALUE k 0 1\r\nab\r\n", 0, false},
    {GET, BAD, "VALUE k 0 1\r\na\r\nVALUE k 0 1\r\n", 0, false},
    {SET, OK, "STORED\r\nS", 1, false},
    {SET, FAILED, "NOT_STORED\r\n", 0, false},
    {SET, FAILED, "CLIENT_ERROR bad data chunk\r\n", 0, false},
    {SET, BAD, "STORED \r\n", 0, false},
    {SET, BAD, "END\r\n", 0, false},
};

static void replies(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct reply_case *c = &cases[i];
        size_t n = strlen(c->text);
        for (size_t step = 1; step <= n; step = step < 8 ? step + 1 : n > step ? n : n + 1) {
            struct bt_reply r;
            size_t used;
            enum bt_reply_state s = feed(&r, c->protocol, &c->expect, (struct sent){c->text, n, step}, &used);
            if (s != c->state || (s == BT_REPLY_DONE && (r.verdict != c->verdict || r.closes != c->closes))) {
                fail_msg("case %zu step %zu: state %d verdict %d: %s", i, step, (int)s, (int)r.verdict,
                         r.bad != NULL ? r.bad : "-");
            }
            if (s == BT_REPLY_DONE) {
                assert_int_equal(used, n - c->behind);
            }
            assert_true((s == BT_REPLY_BAD) == (r.bad != NULL));
        }
    }
}

// Lines and headers without end are cut off, however they come.
static void endless_lines_are_bounded(void **state)
{
    (void)state;
    static const enum bt_reply_protocol protocols[] = {BT_REPLY_HTTP, BT_REPLY_REDIS, BT_REPLY_MEMCACHED_TEXT};
    for (unsigned i = 0; i < 3; i++) {
        struct bt_reply r;
        size_t used;
        size_t fed = 0;
        enum bt_reply_state s = BT_REPLY_MORE;
        bt_reply_begin(&r, protocols[i], &(struct bt_expect){0});
        for (; s == BT_REPLY_MORE && fed < 100000; fed++) {
            s = bt_reply_feed(&r, (const uint8_t *)"+", 1, &used);
        }
        assert_int_equal(s, BT_REPLY_BAD);
        assert_true(fed <= BT_HTTP_LINE + 1);
    }
    struct bt_reply r;
    size_t used;
    enum bt_reply_state s = BT_REPLY_MORE;
    bt_reply_begin(&r, BT_REPLY_HTTP, &(struct bt_expect){0});
    assert_int_equal(bt_reply_feed(&r, (const uint8_t *)"HTTP/1.1 200 OK\r\n", 17, &used), BT_REPLY_MORE);
    for (unsigned i = 0; i < BT_HTTP_LINES + 1 && s == BT_REPLY_MORE; i++) {
        s = bt_reply_feed(&r, (const uint8_t *)"a: b\r\n", 6, &used);
    }
    assert_int_equal(s, BT_REPLY_BAD);
}

static enum bt_reply_state ends(enum bt_reply_protocol protocol, const char *text)
{
    struct bt_reply r;
    size_t used;
    return feed(&r, protocol, &(struct bt_expect){0}, (struct sent){text, strlen(text), strlen(text)}, &used);
}

// n times `piece` between `before` and `behind`; to be freed.
static char *repeated(const char *before, const char *piece, size_t n, const char *behind)
{
    size_t one = strlen(piece), begin = strlen(before);
    char *text = malloc(begin + n * one + strlen(behind) + 1);
    assert_non_null(text);
    memcpy(text, before, begin);
    for (size_t i = 0; i < n; i++) {
        memcpy(text + begin + i * one, piece, one);
    }
    strcpy(text + begin + n * one, behind); // NOLINT: it has the room
    return text;
}

static void bounds_are_held_to_the_last_one(void **state)
{
    static const char chunked[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    const struct {
        enum bt_reply_protocol protocol;
        enum bt_reply_state state;
        const char *before, *piece;
        size_t n;
        const char *behind;
    } bounds[] = {
        {BT_REPLY_HTTP, BT_REPLY_DONE, chunked, "1\r\nx\r\n", 300, "0\r\n\r\n"}, // chunks are not header lines
        {BT_REPLY_HTTP, BT_REPLY_MORE, chunked, "0", 1, "8000000\r\n"},
        {BT_REPLY_HTTP, BT_REPLY_BAD, chunked, "0", 1, "8000001\r\n"},
        {BT_REPLY_HTTP, BT_REPLY_BAD, chunked, "0", 8, "1\r\n"},                                  // nine digits
        {BT_REPLY_HTTP, BT_REPLY_BAD, "HTTP/1.1 200 OK\r\nConnection: ", "x,", 152, "close\r\n"}, // a byte too many
        {BT_REPLY_HTTP, BT_REPLY_MORE, "HTTP/1.1 200 OK\r\nConnection: ", "x,", 151, "close\r\n"},
        {BT_REPLY_HTTP, BT_REPLY_BAD, "HTTP/1.1 200 ", "\x7f", 1, "\r\n"},
        {BT_REPLY_MEMCACHED_TEXT, BT_REPLY_MORE, "VALUE ", "k", 250, " 0 1\r\n"},
        {BT_REPLY_MEMCACHED_TEXT, BT_REPLY_MORE, "VALUE ", "k", 250, " 4294967295 100000000 18446744073709551615\r\n"},
        {BT_REPLY_MEMCACHED_TEXT, BT_REPLY_BAD, "VALUE ", "k", 251, " 0 1\r\n"},
        {BT_REPLY_REDIS, BT_REPLY_MORE, "*2\r\n*1048576\r\n", ":1\r\n", BT_RESP_ITEMS - 2, ""},
        {BT_REPLY_REDIS, BT_REPLY_BAD, "*2\r\n*1048576\r\n", ":1\r\n", BT_RESP_ITEMS - 1, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        char *text = repeated(bounds[i].before, bounds[i].piece, bounds[i].n, bounds[i].behind);
        if (ends(bounds[i].protocol, text) != bounds[i].state) {
            fail_msg("case %zu", i);
        }
        free(text);
    }
}

static void binary_header(uint8_t h[24], uint8_t magic, uint8_t opcode, uint16_t status, uint32_t body, uint32_t opaque)
{
    memset(h, 0, 24);
    h[0] = magic;
    h[1] = opcode;
    h[6] = (uint8_t)(status >> 8);
    h[7] = (uint8_t)status;
    for (unsigned i = 0; i < 4; i++) {
        h[8 + i] = (uint8_t)(body >> (24 - 8 * i));
        h[12 + i] = (uint8_t)(opaque >> (24 - 8 * i));
    }
}

static void memcached_binary(void **state)
{
    (void)state;
    static const struct {
        uint8_t magic, opcode;
        uint16_t status;
        uint32_t body, opaque;
        uint8_t extras, type;
        enum bt_reply_state state;
        enum bt_reply_verdict verdict;
    } rows[] = {
        {0x81, 0, 0, 7, 99, 4, 0, OK},    {0x81, 0, 1, 9, 99, 0, 0, MISS}, {0x81, 0, 0x82, 0, 99, 0, 0, FAILED},
        {0x80, 0, 0, 7, 99, 4, 0, BAD},   {0x81, 1, 0, 7, 99, 4, 0, BAD},  {0x81, 0, 0, 7, 98, 4, 0, BAD},
        {0x81, 0, 0, 3, 99, 4, 0, BAD},   {0x81, 0, 0, 7, 99, 4, 1, BAD},  {0x81, 0, 0, 0xffffffff, 99, 4, 0, BAD},
        {0x81, 0, 0, 90, 99, 4, 0, MORE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t bytes[64] = {0};
        struct bt_reply r;
        size_t used;
        binary_header(bytes, rows[i].magic, rows[i].opcode, rows[i].status, rows[i].body, rows[i].opaque);
        bytes[4] = rows[i].extras;
        bytes[5] = rows[i].type;
        for (size_t step = 1; step <= 64; step += 21) {
            enum bt_reply_state s = feed(&r, BT_REPLY_MEMCACHED_BINARY, &(struct bt_expect){.opaque = 99},
                                         (struct sent){(const char *)bytes, sizeof bytes, step}, &used);
            assert_int_equal(s, rows[i].state);
            if (s == BT_REPLY_DONE) {
                assert_int_equal(r.verdict, rows[i].verdict);
                assert_int_equal(used, 24 + rows[i].body);
            }
        }
    }
}

static void plain(void **state)
{
    (void)state;
    struct bt_reply r;
    size_t used;
    struct bt_expect echo = {.bytes = 12};
    memcpy(&echo.first, "serial-1", 8);
    assert_int_equal(feed(&r, BT_REPLY_ECHO, &echo, (struct sent){"serial-1abcdX", 13, 5}, &used), BT_REPLY_DONE);
    assert_int_equal(used, 12);
    assert_int_equal(feed(&r, BT_REPLY_ECHO, &echo, (struct sent){"serial-2abcd", 12, 12}, &used), BT_REPLY_BAD);
    echo.bytes = 3; // too short for a serial number
    assert_int_equal(feed(&r, BT_REPLY_ECHO, &echo, (struct sent){"xyzX", 4, 4}, &used), BT_REPLY_DONE);
    assert_int_equal(used, 3);
    struct bt_expect asked = {.bytes = 3};
    assert_int_equal(feed(&r, BT_REPLY_STSS, &asked, (struct sent){"\3\0\0\0\0\0\0\0abcX", 12, 3}, &used),
                     BT_REPLY_DONE);
    assert_int_equal(used, 11);
    assert_int_equal(feed(&r, BT_REPLY_STSS, &asked, (struct sent){"\0\0\0\0\0\0\0\3abc", 11, 11}, &used),
                     BT_REPLY_BAD);
    assert_int_equal(feed(&r, BT_REPLY_SYNTHETIC, &asked, (struct sent){"12345678X", 9, 2}, &used), BT_REPLY_DONE);
    assert_int_equal(used, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies),
        cmocka_unit_test(endless_lines_are_bounded),
        cmocka_unit_test(bounds_are_held_to_the_last_one),
        cmocka_unit_test(memcached_binary),
        cmocka_unit_test(plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
