// SPDX-License-Identifier: Apache-2.0
// Every counter of the core's rooms is exported under a name of its own: one without would be lost in silence, two of
// one name would be one series.
#include "unit.h"

#include <string.h>

#include "rpc/client.h"
#include "rpc/server.h"

static bool same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static void each_has_a_name(const struct bt_counter_desc *d, unsigned n, const char *prefix)
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
            if (!same(d[i].name, d[k].name)) {
                continue;
            }
            assert_true(same(d[i].label, d[k].label)); // one name, one label
            assert_false(same(d[i].value, d[k].value));
        }
    }
}

static void rpc_counters_have_names(void **state)
{
    (void)state;
    each_has_a_name(bt_server_counter_desc, BT_SERVER_COUNTERS, "server_");
    each_has_a_name(bt_client_counter_desc, BT_CLIENT_COUNTERS, "client_");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rpc_counters_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
