// SPDX-License-Identifier: Apache-2.0
// An agent stores every key before it measures: all of them, once, and what goes wrong is told with the target's
// address.
#include "unit.h"

#include "bobtail-load/agent/agent.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KEYS = 200 };

static struct agent agent;
static struct bt_addr target;
static int listener;
static const char *said; // to each key
static unsigned keys, end_after;
static bool seen[KEYS];

// One connection of a store of memcached's text protocol.
static void *store(void *arg)
{
    char line[400];
    int fd = accept(listener, NULL, NULL);
    FILE *f = fdopen(fd, "r");
    (void)arg;
    while (f != NULL && keys < end_after && fgets(line, sizeof line, f) != NULL) {
        unsigned key = 0;
        if (sscanf(line, "set %8x", &key) == 1 && key < KEYS) {
            seen[key] = true;
        }
        if (fgets(line, sizeof line, f) == NULL) { // its value
            break;
        }
        keys++;
        if (send(fd, said, strlen(said), MSG_NOSIGNAL) < 0) {
            break;
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    return NULL;
}

static bool preload(const char *answer, unsigned after, struct bt_ctl_error *e)
{
    static const char line[] =
        "{\"op\":\"configure\",\"protocol\":\"memcached-ascii\",\"targets\":[\"h:1\"],\"keys\":200,\"seed\":1,"
        "\"preload\":true}";
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof sa;
    pthread_t thread;
    memset(&agent, 0, sizeof agent);
    memset(seen, 0, sizeof seen);
    keys = 0;
    said = answer;
    end_after = after;
    assert_true(agent_config_read(line, sizeof line - 1, &agent.config, e));
    listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(bind(listener, (struct sockaddr *)&sa, len) == 0 && listen(listener, 1) == 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&sa, &len), 0);
    target = bt_addr_v4u(INADDR_LOOPBACK, ntohs(sa.sin_port));
    assert_int_equal(pthread_create(&thread, NULL, store, NULL), 0);
    bool ok = agent_preload(&agent, &target, e);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(listener);
    return ok;
}

static void failed(const struct bt_ctl_error *e, const char *why)
{
    char want[200], text[BT_ADDR_TEXT];
    snprintf(want, sizeof want, "%s: %s", bt_addr_format(&target, text), why);
    assert_string_equal(e->code, "TargetFailed");
    assert_string_equal(e->field, "preload");
    assert_string_equal(e->message, want);
}

static void every_key_is_stored_once(void **state)
{
    struct bt_ctl_error e;
    (void)state;
    assert_true(preload("STORED\r\n", UINT32_MAX, &e));
    assert_int_equal(keys, KEYS);
    for (unsigned i = 0; i < KEYS; i++) {
        assert_true(seen[i]);
    }
}

static void what_goes_wrong_is_told(void **state)
{
    struct bt_ctl_error e;
    (void)state;
    assert_false(preload("SERVER_ERROR full\r\n", UINT32_MAX, &e));
    failed(&e, "the service refused to store a key");
    assert_true(keys < KEYS); // it gave up before the end
    assert_false(preload("STORED\r\n", 150, &e));
    assert_non_null(strstr(e.message, ": ")); // closed, or reset with keys on their way
    assert_string_equal(e.field, "preload");
    assert_false(preload("nonsense\r\n", UINT32_MAX, &e));
    assert_string_equal(e.code, "TargetFailed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_is_stored_once),
        cmocka_unit_test(what_goes_wrong_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
