// SPDX-License-Identifier: Apache-2.0
// The socket itself: framing, oversize, descriptors, several peers, stale files.
#include "descriptors.h"

#include "bed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static int dial(const struct bed *b)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(sa.sun_path, sizeof sa.sun_path, "%s", b->socket);
    if (connect(fd, (struct sockaddr *)(void *)&sa, sizeof sa) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static char answer[1 << 20];

// Sends one packet with descriptors and waits for the answer's text.
static const char *exchange(int fd, const char *text, size_t len, const int *fds, size_t n)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)text, .iov_len = len};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n != 0) {
        h.msg_control = control;
        h.msg_controllen = CMSG_SPACE(n * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&h);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n * sizeof(int));
    }
    assert_int_equal(sendmsg(fd, &h, MSG_NOSIGNAL), (ssize_t)len);
    ssize_t got = recv(fd, answer, sizeof answer - 1, 0);
    assert_true(got > 0);
    answer[got] = '\0';
    return answer;
}

static const char *ask(int fd, const char *text)
{
    return exchange(fd, text, strlen(text), NULL, 0);
}

static void start(struct bed *b)
{
    struct bt_ctl_error e;
    bed_open(b, true);
    assert_true(bt_ctl_start(b->ctl, &e));
}

static void two_peers_ask_in_turns(void **state)
{
    struct bed b;
    struct stat st;
    (void)state;
    start(&b);
    assert_int_equal(stat(b.socket, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    int x = dial(&b);
    int y = dial(&b);
    for (int i = 0; i < 20; i++) {
        assert_non_null(strstr(ask(x, "{\"v\":1,\"op\":\"hello\"}"), "\"incarnation\":77"));
        assert_non_null(strstr(ask(y, "{\"v\":1,\"op\":\"nonsense\"}"), "UnknownOperation"));
    }
    assert_true(strlen(ask(y, "{\"v\":1,\"op\":\"state\"}")) > 150000); // 1,024 workers in one packet
    close(x);
    assert_non_null(strstr(ask(y, "{\"v\":1,\"op\":\"hello\"}"), "\"ok\":true"));
    close(y);
    bed_close(&b);
}

static void oversize_is_refused_and_the_connection_stays(void **state)
{
    struct bed b;
    (void)state;
    start(&b);
    int fd = dial(&b);
    static const size_t sizes[] = {BT_CTL_INLINE_MAX + 1, BT_CTL_INLINE_MAX + 4096, BT_CTL_INLINE_MAX + 4097, 150000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *big = malloc(sizes[i]);
        memset(big, ' ', sizes[i]);
        memcpy(big, "{\"v\":1,\"op\":\"hello\"}", 20); // would be fine if it were shorter
        assert_non_null(strstr(exchange(fd, big, sizes[i], NULL, 0), "InvalidRequest"));
        free(big);
    }
    char *full = malloc(BT_CTL_INLINE_MAX);
    memset(full, ' ', BT_CTL_INLINE_MAX);
    memcpy(full, "{\"v\":1,\"op\":\"hello\"}", 20);
    assert_non_null(strstr(exchange(fd, full, BT_CTL_INLINE_MAX, NULL, 0), "\"ok\":true"));
    free(full);
    close(fd);
    bed_close(&b);
}

static void descriptors_of_peers_are_closed(void **state)
{
    struct bed b;
    int fds[8];
    size_t len;
    char hash[BT_CONFIG_HASH];
    char request[256];
    (void)state;
    start(&b);
    char *good = bed_document(&len);
    bt_config_hash(good, len, hash);
    snprintf(request, sizeof request, "{\"v\":1,\"op\":\"apply\",\"hash\":\"%s\",\"memfd\":true,\"size\":%zu}", hash,
             len);
    int fd = dial(&b);
    for (int i = 0; i < 8; i++) {
        fds[i] = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_int_equal(write(fds[i], good, len), (ssize_t)len);
        assert_int_equal(fcntl(fds[i], F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
    }
    ask(fd, "{\"v\":1,\"op\":\"hello\"}"); // now the server has accepted the connection
    int before = descriptors();
    for (size_t n = 0; n <= 8; n++) {
        const char *wanted = n == 1 ? "\"ok\":true" : "\"field\":\"memfd\"";
        assert_non_null(strstr(exchange(fd, request, strlen(request), fds, n), wanted));
        char count[64]; /* K-19: as many as were sent, as far as they are received at all */
        snprintf(count, sizeof count, n <= 4 ? "got %zu\"" : "got more than 4\"", n);
        assert_true(n == 1 || strstr(answer, count) != NULL);
    }
    assert_int_equal(descriptors(), before);
    for (int i = 0; i < 8; i++) {
        close(fds[i]);
    }
    close(fd);
    free(good);
    bed_close(&b);
}

static bool answered(int fd)
{
    char byte;
    return send(fd, "{\"v\":1,\"op\":\"hello\"}", 20, MSG_NOSIGNAL) == 20 && recv(fd, &byte, 1, 0) == 1;
}

static void silent_peers_keep_nobody_out(void **state)
{
    struct bed b;
    int silent[40];
    char byte;
    (void)state;
    start(&b);
    int sidecar = dial(&b);
    assert_true(answered(sidecar));
    for (int i = 0; i < 40; i++) {
        silent[i] = dial(&b);
        assert_true(silent[i] >= 0);
    }
    int late = dial(&b);
    assert_true(answered(late));
    assert_true(answered(sidecar));                 // who has spoken keeps the place
    assert_true(recv(silent[0], &byte, 1, 0) <= 0); // told at once, not left hanging
    assert_true(answered(silent[39]));
    for (int i = 0; i < 15; i++) { // among those who have, the last word counts
        int fd = dial(&b);
        assert_true(answered(fd));
        silent[i] = dup2(fd, silent[i]);
        close(fd);
        assert_true(answered(late));
    }
    assert_false(answered(sidecar));
    assert_true(answered(late));
    for (int i = 0; i < 40; i++) {
        close(silent[i]);
    }
    close(late);
    close(sidecar);
    bed_close(&b);
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void without_descriptors_it_waits_and_does_not_spin(void **state)
{
    struct bed b;
    struct rlimit before;
    int peer[4];
    (void)state;
    start(&b);
    int early = dial(&b);
    assert_true(answered(early));
    for (int i = 0; i < 4; i++) {
        peer[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none = {.rlim_cur = (rlim_t)peer[3] + 1, .rlim_max = before.rlim_max};
    for (int fd; (fd = dup(early)) >= 0;) { // the gaps below the limit
        if (fd > peer[3]) {
            close(fd);
            break;
        }
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    snprintf(sa.sun_path, sizeof sa.sun_path, "%s", b.socket);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(connect(peer[i], (struct sockaddr *)(void *)&sa, sizeof sa), 0); // waits in the backlog
    }
    uint64_t cpu = cpu_ns();
    usleep(500000);
    cpu = cpu_ns() - cpu;
    assert_true(answered(early));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i < 4; i++) {
        assert_true(answered(peer[i])); // as soon as there are descriptors again
    }
    assert_true(cpu < 250000000u); // half of what a spinning thread takes if it gets a core
    for (int i = 0; i < 4; i++) {
        close(peer[i]);
    }
    close(early);
    bed_close(&b);
}

static void a_dead_socket_is_replaced_a_live_one_is_not(void **state)
{
    struct bed b;
    struct bt_ctl_error e;
    (void)state;
    bed_open(&b, true);
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    snprintf(sa.sun_path, sizeof sa.sun_path, "%s", b.socket);
    int dead = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(dead, (struct sockaddr *)(void *)&sa, sizeof sa), 0);
    assert_int_equal(listen(dead, 1), 0);
    assert_false(bt_ctl_start(b.ctl, &e));
    assert_non_null(strstr(e.message, "another process"));
    close(dead); // its file stays, as after kill -9
    assert_true(bt_ctl_start(b.ctl, &e));
    int fd = dial(&b);
    assert_non_null(strstr(ask(fd, "{\"v\":1,\"op\":\"hello\"}"), "\"ok\":true"));
    close(fd);
    bed_close(&b);
}

static void an_empty_packet_leaks_no_descriptor(void **state)
{
    struct bed b;
    char byte;
    (void)state;
    start(&b);
    int witness = dial(&b);
    ask(witness, "{\"v\":1,\"op\":\"hello\"}");
    int before = descriptors();
    for (int i = 0; i < 20; i++) {
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {0};
        struct iovec iov = {.iov_base = &byte, .iov_len = 0};
        struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        struct cmsghdr *c = CMSG_FIRSTHDR(&h);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(4 * sizeof(int)); // four times descriptor 0
        int fd = dial(&b);
        assert_int_equal(sendmsg(fd, &h, MSG_NOSIGNAL), 0);
        assert_true(recv(fd, &byte, 1, 0) <= 0); // taken for the end of the connection
        close(fd);
    }
    ask(witness, "{\"v\":1,\"op\":\"hello\"}");
    assert_int_equal(descriptors(), before);
    close(witness);
    bed_close(&b);
}

static void a_file_that_is_no_socket_stays(void **state)
{
    struct bed b;
    struct bt_ctl_error e;
    (void)state;
    bed_open(&b, true);
    int fd = open(b.socket, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "notes", 5), 5);
    close(fd);
    assert_false(bt_ctl_start(b.ctl, &e));
    assert_non_null(strstr(e.message, "no socket"));
    struct stat st;
    assert_int_equal(stat(b.socket, &st), 0);
    assert_int_equal(st.st_size, 5);
    unlink(b.socket);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_peers_ask_in_turns),
        cmocka_unit_test(oversize_is_refused_and_the_connection_stays),
        cmocka_unit_test(descriptors_of_peers_are_closed),
        cmocka_unit_test(silent_peers_keep_nobody_out),
        cmocka_unit_test(without_descriptors_it_waits_and_does_not_spin),
        cmocka_unit_test(a_dead_socket_is_replaced_a_live_one_is_not),
        cmocka_unit_test(an_empty_packet_leaks_no_descriptor),
        cmocka_unit_test(a_file_that_is_no_socket_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
