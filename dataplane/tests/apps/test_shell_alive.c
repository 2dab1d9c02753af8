// SPDX-License-Identifier: Apache-2.0
// Whether another program is alive: it answers on its control socket, or it is told why not.
#include "unit.h"

#include "captured.h"
#include "shell/alive.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static char said[1000];

static void not_alive(const char *path, const char *why)
{
    char want[400];
    struct captured c = captured_begin(2);
    bool alive = bt_alive(path);
    captured_end(&c, said, sizeof said);
    assert_false(alive);
    snprintf(want, sizeof want, "%s: %s\n", path, why);
    assert_string_equal(said, want);
}

// A program that says anything at all, or with `speaks` NULL hangs up.
static const char *speaks;

static void *answer_once(void *arg)
{
    char asked[100] = "";
    int fd = accept(*(const int *)arg, NULL, NULL);
    ssize_t n = recv(fd, asked, sizeof asked - 1, 0);
    assert_true(n > 0 && strcmp(asked, "{\"v\":1,\"op\":\"state\"}") == 0);
    if (speaks != NULL) {
        assert_int_equal(send(fd, speaks, strlen(speaks), MSG_NOSIGNAL), strlen(speaks));
    }
    close(fd);
    return NULL;
}

static void who_answers_is_alive(void **state)
{
    char folder[] = "/tmp/bobtail-alive-XXXXXX";
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    pthread_t t;
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(sa.sun_path, sizeof sa.sun_path, "%s/sock", folder);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(listen(fd, 4), 0);
    for (unsigned i = 0; i < 2; i++) {
        speaks = i == 0 ? "{}" : NULL;
        assert_int_equal(pthread_create(&t, NULL, answer_once, &fd), 0);
        struct captured c = captured_begin(2);
        bool alive = bt_alive(sa.sun_path);
        captured_end(&c, said, sizeof said);
        assert_int_equal(pthread_join(t, NULL), 0);
        assert_int_equal(alive, i == 0);
        assert_int_equal(said[0] == '\0', i == 0);
    }
    close(fd);
    unlink(sa.sun_path);
    rmdir(folder);
}

static void who_does_not_answer_is_not_alive(void **state)
{
    char path[200], folder[] = "/tmp/bobtail-alive-XXXXXX";
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    (void)state;
    memset(path, 'x', sizeof path);
    path[sizeof sa.sun_path] = '\0';
    not_alive(path, "socket: File name too long");
    path[sizeof sa.sun_path - 1] = '\0';
    not_alive(path, "connect: No such file or directory");
    assert_non_null(mkdtemp(folder));
    snprintf(sa.sun_path, sizeof sa.sun_path, "%s/sock", folder);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    not_alive(sa.sun_path, "connect: Connection refused");
    assert_int_equal(listen(fd, 4), 0);
    not_alive(sa.sun_path, "receive: no answer in 2 s: the program hangs");
    close(fd);
    unlink(sa.sun_path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_answers_is_alive),
        cmocka_unit_test(who_does_not_answer_is_not_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
