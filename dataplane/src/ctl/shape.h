// SPDX-License-Identifier: Apache-2.0
// The one reader of JSON documents: a table of fields per object says what a document may hold and where each value
// goes. Names, types, doubles, what is missing and bounds are judged here, with the same words for every document; what
// one field says about another is said by a row's `check`. The first fault is the one reported: of form at once, of a
// value when the whole text has the right form.
#ifndef BT_CTL_SHAPE_H
#define BT_CTL_SHAPE_H

#include "ctl/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BT_SHAPE_TEXT_MAX 512u // bytes of a text that is parsed, with its end

enum bt_shape_kind {
    BT_SHAPE_TEXT,   // char[]; min: fewest bytes
    BT_SHAPE_WHOLE,  // an integer of 1, 2, 4 or 8 bytes
    BT_SHAPE_NUMBER, // double
    BT_SHAPE_TRUTH,  // bool
    BT_SHAPE_WORD,   // an enum: which of `words`
    BT_SHAPE_PARSED, // a text, handed to `parse`
    BT_SHAPE_OBJECT, // what `shape` says, from `to` on
    BT_SHAPE_LIST, // a pointer to items of the heap, whose owner frees them also after a refusal; min and max: how many
    BT_SHAPE_ARRAY,  // items in place, likewise
    BT_SHAPE_SKIPPED // read over
};

// A member of a struct: where it is and how wide.
struct bt_shape_place {
    uint32_t at, size;
};
#define BT_SHAPE_AT(type, member) {offsetof(type, member), sizeof(((type *)0)->member)}

struct bt_shape;
struct bt_shape_reader;

struct bt_shape_field {
    const char *name;
    enum bt_shape_kind kind;
    bool required;
    struct bt_shape_place to;
    struct bt_shape_place count; // LIST, ARRAY: an integer for the number of items
    struct bt_shape_place given; // a bool that says that the field was there; size 0: nobody asks
    double min, max;             // both 0: no bounds
    const char *const *words;    // WORD: NULL at the end
    unsigned first_word;         // WORD: what the first of them stands for
    // PARSED: NULL, or what the text must be.
    const char *(*parse)(const char *text, void *to);
    const struct bt_shape *shape;      // OBJECT
    const struct bt_shape_field *item; // LIST, ARRAY: one item, from its own beginning on
    // Called when the value, and all that is in it, has been read without fault; base: of the object it belongs to.
    void (*check)(struct bt_shape_reader *r, void *base);
};

struct bt_shape {
    const struct bt_shape_field *fields;
    unsigned n;  // at most 64
    size_t size; // of the struct it fills, where it is an item
    bool open;   // fields that are not in the table are read over
};

// Fills `into`, which holds the defaults. False with *e: `code`, the field's path and what to do.
bool bt_shape_read(const struct bt_shape *shape, void *into, const char *text, size_t len, const char *code,
                   struct bt_ctl_error *e);

// For a `check`: a fault at the value just read, or at what lies below it ("", "[2].workers", ".mode").
void bt_shape_refuse(struct bt_shape_reader *r, const char *below, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// "A, B, C" of words.
const char *bt_shape_words(const char *const *words, char *buf, size_t cap);

#endif
