// SPDX-License-Identifier: Apache-2.0
// A strict pull reader of JSON (RFC 8259) over bytes that are already in memory. Pulling keeps
// three things a tree throws away: the order of the fields, so that the first fault is the one
// reported; fields that occur twice; and where a value's text lies, because configurations are
// hashed byte by byte. It never recurses and never allocates.
#ifndef BT_CTL_JSON_H
#define BT_CTL_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BT_JSON_DEPTH 32u

enum bt_json_kind {
    BT_JSON_BAD, // nothing that starts a value
    BT_JSON_OBJECT,
    BT_JSON_LIST,
    BT_JSON_STRING,
    BT_JSON_NUMBER,
    BT_JSON_BOOLEAN,
    BT_JSON_NULL,
};

struct bt_json {
    const char *text;
    size_t len;
    size_t at;          // next unread byte; after a failure the byte at fault
    const char *failed; // NULL, or what is wrong with the text
    unsigned depth;
    bool fresh[BT_JSON_DEPTH]; // nothing was read yet of the object or list at this depth
};

void bt_json_init(struct bt_json *j, const char *text, size_t len);

// What the next value is, without reading it.
enum bt_json_kind bt_json_peek(struct bt_json *j);

// "an object", "a string", … for messages.
const char *bt_json_kind_name(enum bt_json_kind kind);

// Enters an object or a list, whichever is next. False on a syntax error or more than 32 levels.
bool bt_json_enter(struct bt_json *j);

// In an object: reads the next key and its colon; at the end leaves the object. 1 a key was read,
// 0 the object is over, -1 syntax error. Keys longer than cap-1 bytes are cut.
int bt_json_key(struct bt_json *j, char *buf, size_t cap);

// In a list: 1 another item follows, 0 the list is over (and left), -1 syntax error.
int bt_json_item(struct bt_json *j);

// Reads a string, decoded to UTF-8 and terminated, at most cap-1 bytes of it. *len is its whole
// length. False on a syntax error.
bool bt_json_string(struct bt_json *j, char *buf, size_t cap, size_t *len);

// Reads a number; *text and *len are its spelling. False on a syntax error.
bool bt_json_number(struct bt_json *j, const char **text, size_t *len);

bool bt_json_boolean(struct bt_json *j, bool *out);

// Reads over one value of any kind; *from and *len (may be NULL) tell where its text lies.
bool bt_json_skip(struct bt_json *j, const char **from, size_t *len);

// True if nothing but white space is left.
bool bt_json_end(struct bt_json *j);

// The spelling of a JSON number as a 64-bit integer; false if it has a fraction, an exponent or
// does not fit.
bool bt_json_to_int(const char *text, size_t len, int64_t *out);

#endif
