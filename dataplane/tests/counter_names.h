// SPDX-License-Identifier: Apache-2.0
// The names that counters are published under, as one text to compare: who watches them knows them by name.
#ifndef BT_TESTS_COUNTER_NAMES_H
#define BT_TESTS_COUNTER_NAMES_H

#include "unit.h"

#include "base/counters.h"

#include <stdio.h>
#include <string.h>

// "name\n" or "name{label=value}\n" each. A line that is not the one wanted fails the test with both.
static inline void assert_counter_names(const struct bt_counter_desc *d, unsigned n, const char *wanted)
{
    for (unsigned i = 0; i < n; i++) {
        char line[200];
        assert_non_null(d[i].name);
        int len = d[i].label == NULL ? snprintf(line, sizeof line, "%s\n", d[i].name)
                                     : snprintf(line, sizeof line, "%s{%s=%s}\n", d[i].name, d[i].label, d[i].value);
        assert_int_equal(d[i].label == NULL, d[i].value == NULL);
        if (strncmp(wanted, line, (size_t)len) != 0) {
            fail_msg("counter %u is %s", i, line);
        }
        wanted += len;
    }
    assert_string_equal(wanted, "");
}

#endif
