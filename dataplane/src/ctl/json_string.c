// SPDX-License-Identifier: Apache-2.0
// Escapes, surrogate pairs and UTF-8 validation of JSON strings.
#include "ctl/json_string.h"

#include <stdbool.h>
#include <stdint.h>

struct sink {
    char *buf;
    size_t cap;  // bytes for text, terminator not counted
    size_t kept; // bytes written
    size_t len;  // bytes the whole string has
};

static void put(struct sink *s, const char *bytes, size_t n)
{
    // A cut string is cut before a character, never inside one.
    if (s->len == s->kept && n <= s->cap - s->kept) {
        for (size_t i = 0; i < n; i++) {
            s->buf[s->kept++] = bytes[i];
        }
    }
    s->len += n;
}

static void put_code_point(struct sink *s, uint32_t c)
{
    char u[4];
    if (c < 0x80) {
        u[0] = (char)c;
        put(s, u, 1);
    } else if (c < 0x800) {
        u[0] = (char)(0xc0 | (c >> 6));
        u[1] = (char)(0x80 | (c & 0x3f));
        put(s, u, 2);
    } else if (c < 0x10000) {
        u[0] = (char)(0xe0 | (c >> 12));
        u[1] = (char)(0x80 | ((c >> 6) & 0x3f));
        u[2] = (char)(0x80 | (c & 0x3f));
        put(s, u, 3);
    } else {
        u[0] = (char)(0xf0 | (c >> 18));
        u[1] = (char)(0x80 | ((c >> 12) & 0x3f));
        u[2] = (char)(0x80 | ((c >> 6) & 0x3f));
        u[3] = (char)(0x80 | (c & 0x3f));
        put(s, u, 4);
    }
}

// Four hex digits at text[*at]; -1 if there are fewer.
static int32_t hex4(const char *text, size_t n, size_t *at)
{
    int32_t v = 0;
    if (n - *at < 4) {
        return -1;
    }
    for (unsigned i = 0; i < 4; i++) {
        char c = text[*at];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) {
            return -1;
        }
        v = v * 16 + digit;
        (*at)++;
    }
    return v;
}

static const char *unicode_escape(const char *text, size_t n, size_t *at, struct sink *s)
{
    int32_t high = hex4(text, n, at);
    if (high < 0) {
        return "\\u needs four hexadecimal digits";
    }
    if (high < 0xd800 || high > 0xdfff) {
        put_code_point(s, (uint32_t)high);
        return NULL;
    }
    if (high > 0xdbff || n - *at < 6 || text[*at] != '\\' || text[*at + 1] != 'u') {
        return "lone surrogate";
    }
    *at += 2;
    int32_t low = hex4(text, n, at);
    if (low < 0xdc00 || low > 0xdfff) {
        return "lone surrogate";
    }
    put_code_point(s, 0x10000u + (((uint32_t)high & 0x3ff) << 10) + ((uint32_t)low & 0x3ff));
    return NULL;
}

static const char *escape(const char *text, size_t n, size_t *at, struct sink *s)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    if (*at >= n) {
        return "the text ends early";
    }
    char c = text[*at];
    if (c == 'u') {
        (*at)++;
        return unicode_escape(text, n, at, s);
    }
    for (unsigned i = 0; from[i] != '\0'; i++) {
        if (from[i] == c) {
            (*at)++;
            put(s, &to[i], 1);
            return NULL;
        }
    }
    return "unknown escape";
}

// Lead bytes by what may follow: how long the character is, and the bounds of its second byte, which keep out what is
// overlong, a surrogate or beyond U+10FFFF (Unicode 15, table 3-7).
static const struct utf8_lead {
    unsigned char first, last, size, low, high;
} utf8_leads[] = {
    {0x00, 0x7f, 1, 0, 0},       {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
    {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
    {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

static bool follow(const unsigned char *p, size_t n, const struct utf8_lead *lead)
{
    if (lead->size > n || (lead->size > 1 && (p[1] < lead->low || p[1] > lead->high))) {
        return false;
    }
    for (size_t i = 2; i < lead->size; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return false;
        }
    }
    return true;
}

// Bytes of the UTF-8 character at p (n left), 0 if it is malformed (overlong, surrogate, …).
static size_t utf8(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < sizeof utf8_leads / sizeof utf8_leads[0]; i++) {
        const struct utf8_lead *lead = &utf8_leads[i];
        if (p[0] >= lead->first && p[0] <= lead->last) {
            return follow(p, n, lead) ? lead->size : 0;
        }
    }
    return 0;
}

const char *bt_json_string_body(const char *text, size_t n, size_t *at, char *buf, size_t cap, size_t *len)
{
    struct sink s = {.buf = buf, .cap = cap - 1};
    const char *why = NULL;
    while (why == NULL) {
        if (*at >= n) {
            why = "the text ends early";
        } else if (text[*at] == '"') {
            (*at)++;
            break;
        } else if (text[*at] == '\\') {
            (*at)++;
            why = escape(text, n, at, &s);
        } else if ((unsigned char)text[*at] < 0x20) {
            why = "control character in a string";
        } else {
            size_t bytes = utf8((const unsigned char *)text + *at, n - *at);
            put(&s, text + *at, bytes);
            *at += bytes;
            why = bytes == 0 ? "malformed UTF-8" : NULL;
        }
    }
    buf[s.kept] = '\0';
    *len = s.len;
    return why;
}
