// SPDX-License-Identifier: Apache-2.0
// What every table of counters must be: one without a name would be lost in silence, two of one name would be one
// series.
#ifndef BT_TESTS_NAMED_H
#define BT_TESTS_NAMED_H

#include "unit.h"

#include <stdbool.h>
#include <string.h>

#include "base/counters.h"

static inline bool same_word(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static inline void each_has_a_name(const struct bt_counter_desc *d, unsigned n, const char *prefix)
{
    for (unsigned i = 0; i < n; i++) {
        if (d[i].name == NULL) {
            fail_msg("%s counter %u has no name", prefix, i);
        }
        assert_memory_equal(d[i].name, prefix, strlen(prefix));
        assert_string_equal(d[i].name + strlen(d[i].name) - 6, "_total");
        assert_int_equal(d[i].label == NULL, d[i].value == NULL);
        assert_true(d[i].label == NULL || (*d[i].label != '\0' && *d[i].value != '\0'));
        for (unsigned k = 0; k < i; k++) {
            if (!same_word(d[i].name, d[k].name)) {
                continue;
            }
            assert_true(same_word(d[i].label, d[k].label)); // one name, one label
            assert_false(same_word(d[i].value, d[k].value));
        }
    }
}

#endif
