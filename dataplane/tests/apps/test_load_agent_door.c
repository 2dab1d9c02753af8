// SPDX-License-Identifier: Apache-2.0
// Who waits at an agent's door: what they are greeted with, who is let in, and who is sent away with which words.
#include "unit.h"

#include "bobtail-load/agent/door.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

static struct session_secret secret;
static struct door door;
static struct sockaddr_un at;
static socklen_t at_len;

static void open_door(const char *words)
{
    memset(&door, 0, sizeof door);
    secret.n = strlen(words);
    memcpy(secret.bytes, words, secret.n);
    at = (struct sockaddr_un){.sun_family = AF_UNIX};
    at_len = sizeof at;
    door.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(door.listener, (struct sockaddr *)&at, sizeof(sa_family_t)),
                     0); // a name of the kernel's choice
    assert_int_equal(getsockname(door.listener, (struct sockaddr *)&at, &at_len), 0);
    assert_int_equal(listen(door.listener, 64), 0);
    door.secret = &secret;
    door.lease_s = 7;
}

static void close_door(void)
{
    door_clear(&door, "the agent ends");
    assert_int_equal(door.n, 0);
    close(door.listener);
}

static int knock(bool busy)
{
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, at_len), 0);
    door_knock(&door, busy);
    return fd;
}

// All that was said to a peer so far; behind it "<end>" if there is nothing more to come.
static const char *heard(int fd)
{
    static char text[2048];
    size_t n = 0;
    ssize_t k;
    while ((k = recv(fd, text + n, sizeof text - 10 - n, MSG_DONTWAIT)) > 0) {
        n += (size_t)k;
    }
    strcpy(text + n, k == 0 ? "<end>" : "");
    return text;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), 0), strlen(text));
}

static void refusal(int fd, const char *code, const char *field, const char *message)
{
    char want[500];
    snprintf(want, sizeof want, "{\"ok\":false,\"error\":{\"code\":\"%s\",\"field\":\"%s\",\"message\":\"%s\"}}\n<end>",
             code, field, message);
    assert_string_equal(heard(fd), want);
    close(fd);
}

// A peer that knocked, and the number it was given.
static int greeted(char nonce[65])
{
    int fd = knock(false);
    char *found = strstr(heard(fd), "\"nonce\":\"");
    assert_non_null(found);
    memcpy(nonce, found + 9, 64);
    nonce[64] = '\0';
    return fd;
}

static const char mine[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

static void hello(int fd, const char *theirs, const char *own, const char *behind)
{
    char proof[65], line[600];
    session_proof(&secret, "lancet-coordinator-1:", theirs, own, proof);
    snprintf(line, sizeof line, "{\"op\":\"hello\",\"nonce\":\"%s\",\"proof\":\"%s\"}\n%s", own, proof, behind);
    say(fd, line);
}

static void a_peer_is_greeted_with_what_it_needs(void **state)
{
    char want[300];
    (void)state;
    for (unsigned proof = 0; proof < 2; proof++) {
        open_door(proof ? "a secret of some length" : "");
        int fd = knock(false);
        assert_int_equal(door.n, 1);
        snprintf(want, sizeof want,
                 "{\"ok\":true,\"agent\":\"bobtail-load\",\"version\":\"%s\",\"contract\":2,\"nonce\":\"%s\","
                 "\"authentication\":\"%s\",\"leaseSeconds\":7}\n",
                 BOBTAIL_VERSION, door.peer[0].nonce, proof ? "token" : "none");
        assert_string_equal(heard(fd), want);
        assert_int_equal(strlen(door.peer[0].nonce), 64);
        int other = knock(false);
        assert_string_not_equal(door.peer[0].nonce, door.peer[1].nonce);
        close_door();
        refusal(fd, "Busy", "", "the agent ends; try again later");
        close(other);
    }
}

static void without_a_secret_everybody_may_come_in(void **state)
{
    struct door_peer in;
    (void)state;
    open_door("");
    int fd = knock(false);
    assert_true(door_listen(&door, 0, &in));
    assert_int_equal(door.n, 0);
    assert_int_equal(in.have, 0);
    close(in.fd);
    close(fd);
    close_door();
}

static void who_proves_the_secret_comes_in_and_what_it_said_next_with_it(void **state)
{
    char nonce[65], proof[65], want[200];
    struct door_peer in;
    (void)state;
    open_door("a secret of some length");
    int silent = knock(false), fd = greeted(nonce);
    assert_false(door_listen(&door, 0, &in));
    assert_false(door_listen(&door, 1, &in)); // nothing was said yet
    hello(fd, nonce, mine, "{\"op\":\"alive\"}\n{");
    assert_true(door_listen(&door, 1, &in));
    session_proof(&secret, "lancet-agent-1:", mine, nonce, proof);
    snprintf(want, sizeof want, "{\"ok\":true,\"proof\":\"%s\"}\n", proof);
    assert_string_equal(heard(fd), want);
    assert_int_equal(in.have, 16);
    assert_memory_equal(in.line, "{\"op\":\"alive\"}\n{", 16);
    assert_int_equal(door.n, 1); // the other still waits
    close(in.fd);
    close(fd);
    close_door();
    close(silent);
}

static void who_does_not_is_told_why(void **state)
{
    static const struct {
        const char *line, *code, *field, *message;
    } rows[] = {
        {"{\"op\":\"poll\"}\n", "Unauthorized", "op", "the first request must be hello"},
        {"{\"op\":\"hello\"}\n", "InvalidRequest", "nonce", "must be 64 lower-case hexadecimal digits"},
        {"{\"op\":\"hello\",\"nonce\":\"00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff\"}\n",
         "InvalidRequest", "nonce", "must be 64 lower-case hexadecimal digits"},
        {"{\"op\":\"hello\",\"nonce\":\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}\n",
         "Unauthorized", "proof", "does not come from the agent's token; both need the same file"},
        {"{\"op\":\"hello\",\"nonce\":\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\",\"proof\":"
         "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}\n",
         "Unauthorized", "proof", "does not come from the agent's token; both need the same file"},
    };
    char line[DOOR_LINE + 1];
    struct door_peer in;
    (void)state;
    open_door("a secret of some length");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int fd = knock(false);
        heard(fd);
        say(fd, rows[i].line);
        assert_false(door_listen(&door, 0, &in));
        assert_int_equal(door.n, 0);
        refusal(fd, rows[i].code, rows[i].field, rows[i].message);
    }
    memset(line, ' ', sizeof line);
    line[DOOR_LINE - 1] = '\0';
    int fd = knock(false);
    heard(fd);
    say(fd, line);
    assert_false(door_listen(&door, 0, &in));
    assert_int_equal(door.n, 1); // it may still end
    say(fd, " ");
    assert_false(door_listen(&door, 0, &in));
    snprintf(line, sizeof line, "is a first line of more than %u bytes", DOOR_LINE);
    refusal(fd, "InvalidRequest", "", line);
    fd = knock(false);
    close(fd); // it has gone
    assert_false(door_listen(&door, 0, &in));
    assert_int_equal(door.n, 0);
    close_door();
}

// A proof is of both numbers: one that was heard before opens nothing.
static void a_proof_that_was_said_before_opens_nothing(void **state)
{
    char first[65], second[65];
    struct door_peer in;
    (void)state;
    open_door("a secret of some length");
    int one = greeted(first), two = greeted(second);
    hello(two, first, mine, "");
    assert_false(door_listen(&door, 1, &in));
    refusal(two, "Unauthorized", "proof", "does not come from the agent's token; both need the same file");
    hello(one, first, mine, "");
    assert_true(door_listen(&door, 0, &in));
    close(in.fd);
    close(one);
    close_door();
}

static void the_oldest_goes_when_the_door_is_full_or_five_seconds_are_over(void **state)
{
    int fd[DOOR_PEERS + 1];
    (void)state;
    open_door("a secret of some length");
    for (unsigned i = 0; i < DOOR_PEERS; i++) {
        fd[i] = knock(false);
        heard(fd[i]);
        assert_int_equal(door.n, i + 1);
    }
    fd[DOOR_PEERS] = knock(false);
    assert_int_equal(door.n, DOOR_PEERS);
    refusal(fd[0], "Busy", "", "too many others wait to be let in; try again later");
    assert_string_equal(heard(fd[1]), "");
    refusal(knock(true), "Busy", "", "the agent works for another coordinator; try again later");
    door.peer[0].since_ns = door.peer[1].since_ns = 100 * SECOND;
    door.peer[2].since_ns = 100 * SECOND + 1;
    door_expire(&door, 105 * SECOND - 1);
    assert_int_equal(door.n, DOOR_PEERS);
    door_expire(&door, 105 * SECOND);
    assert_int_equal(door.n, DOOR_PEERS - 2);
    assert_string_equal(heard(fd[1]), "<end>");
    assert_string_equal(heard(fd[3]), "");
    close_door();
    for (unsigned i = 1; i <= DOOR_PEERS; i++) {
        close(fd[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_is_greeted_with_what_it_needs),
        cmocka_unit_test(without_a_secret_everybody_may_come_in),
        cmocka_unit_test(who_proves_the_secret_comes_in_and_what_it_said_next_with_it),
        cmocka_unit_test(who_does_not_is_told_why),
        cmocka_unit_test(a_proof_that_was_said_before_opens_nothing),
        cmocka_unit_test(the_oldest_goes_when_the_door_is_full_or_five_seconds_are_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
