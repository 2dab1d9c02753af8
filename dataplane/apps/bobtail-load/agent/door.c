// SPDX-License-Identifier: Apache-2.0
// Who waits to be let in. Until it has proved the secret a peer has a greeting, a few hundred bytes
// and five seconds; it keeps nobody else out. The first one that proves it becomes the session.
#include "agent/door.h"

#include "agent/fields.h"

#include "shell/start.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HELLO_NS UINT64_C(5000000000)

// Peers here are strangers: what they do not take at once they do not get.
static bool say(int fd, struct bt_json_out *o)
{
    return session_send_line(fd, o, 0);
}

static void refuse(int fd, const struct bt_ctl_error *e)
{
    struct bt_json_out o = {0};
    session_put_error(&o, e);
    (void)say(fd, &o);
}

static void turn_away(int fd, const char *why)
{
    struct bt_ctl_error e;
    bt_ctl_refuse(&e, AGENT_BUSY_CODE, NULL, "%s; try again later", why);
    refuse(fd, &e);
    close(fd);
}

static void forget(struct door *d, unsigned i)
{
    d->n--;
    memmove(&d->peer[i], &d->peer[i + 1], (d->n - i) * sizeof d->peer[0]);
}

static bool greet(struct door_peer *p, bool proof, unsigned lease_s)
{
    struct bt_json_out o = {0};
    uint8_t nonce[SESSION_NONCE];
    randombytes_buf(nonce, sizeof nonce);
    sodium_bin2hex(p->nonce, sizeof p->nonce, nonce, sizeof nonce);
    bt_json_out_open(&o, NULL, '{');
    bt_json_out_bool(&o, "ok", true);
    bt_json_out_string(&o, "agent", "bobtail-load");
    bt_json_out_string(&o, "version", BOBTAIL_VERSION);
    bt_json_out_i64(&o, "contract", AGENT_CONTRACT);
    bt_json_out_string(&o, "nonce", p->nonce);
    bt_json_out_string(&o, "authentication", proof ? "token" : "none");
    bt_json_out_u64(&o, "leaseSeconds", lease_s);
    bt_json_out_close(&o, '}');
    return say(p->fd, &o);
}

void door_knock(struct door *d, bool busy)
{
    int fd = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        return;
    }
    if (busy) {
        turn_away(fd, "the agent works for another coordinator");
        return;
    }
    if (d->n == DOOR_PEERS) { // the oldest had most time: whoever knows the secret says so at once
        turn_away(d->peer[0].fd, "too many others wait to be let in");
        forget(d, 0);
    }
    struct door_peer *p = &d->peer[d->n];
    *p = (struct door_peer){.fd = fd, .since_ns = bt_monotonic_ns()};
    if (!greet(p, d->secret->n != 0, d->lease_s)) {
        close(fd);
        return;
    }
    d->n++;
}

static bool check_proof(const struct door *d, const struct door_peer *p, const char *nonce, const char *proof,
                        struct bt_ctl_error *e)
{
    char want[65];
    if (strlen(nonce) != 64 || strspn(nonce, "0123456789abcdef") != 64) {
        return bt_ctl_refuse(e, BT_CTL_INVALID_REQUEST, "nonce", "must be 64 lower-case hexadecimal digits");
    }
    session_proof(d->secret, "lancet-coordinator-1:", p->nonce, nonce, want);
    if (strlen(proof) != 64 || sodium_memcmp(want, proof, sizeof want) != 0) {
        return bt_ctl_refuse(e, AGENT_UNAUTHORIZED, "proof",
                             "does not come from the agent's token; both need the same file");
    }
    return true;
}

struct hello {
    char nonce[65], proof[65];
};
static const struct bt_shape_field hello_fields[] = {
    AGENT_OP_FIELD,
    {"nonce", BT_SHAPE_TEXT, false, BT_SHAPE_AT(struct hello, nonce)},
    {"proof", BT_SHAPE_TEXT, false, BT_SHAPE_AT(struct hello, proof)},
};
static const struct bt_shape hello_shape = AGENT_SHAPE(hello_fields);

// Is the first line a hello that proves the secret? Then the answer is sent.
static bool hello(const struct door *d, const struct door_peer *p, size_t len, struct bt_ctl_error *e)
{
    char op[AGENT_OP_BYTES] = "";
    char proof[65];
    struct hello said = {"", ""};
    struct bt_json_out o = {0};
    if (!agent_read_op(p->line, len, op, e)) {
        return false;
    }
    if (strcmp(op, "hello") != 0) {
        return bt_ctl_refuse(e, AGENT_UNAUTHORIZED, "op", "the first request must be hello");
    }
    if (!agent_read_fields(p->line, len, &hello_shape, &said, e) || !check_proof(d, p, said.nonce, said.proof, e)) {
        return false;
    }
    session_proof(d->secret, "lancet-agent-1:", said.nonce, p->nonce, proof);
    bt_json_out_open(&o, NULL, '{');
    bt_json_out_bool(&o, "ok", true);
    bt_json_out_string(&o, "proof", proof);
    bt_json_out_close(&o, '}');
    return say(p->fd, &o) || bt_ctl_refuse(e, BT_CTL_INTERNAL, NULL, "the peer takes nothing");
}

enum fate { WAITS, LEAVES, ENTERS };

static enum fate listen_to(const struct door *d, struct door_peer *p, size_t *line)
{
    struct bt_ctl_error e = {0};
    ssize_t n = recv(p->fd, p->line + p->have, sizeof p->line - p->have, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return WAITS;
    }
    if (n <= 0) {
        return LEAVES;
    }
    p->have += (size_t)n;
    char *end = memchr(p->line, '\n', p->have);
    if (end == NULL && p->have < sizeof p->line) {
        return WAITS;
    }
    bool ok = end != NULL;
    if (ok) {
        *end = '\0';
        *line = (size_t)(end - p->line);
        ok = hello(d, p, *line, &e);
    } else {
        bt_ctl_refuse(&e, BT_CTL_INVALID_REQUEST, NULL, "is a first line of more than %u bytes", DOOR_LINE);
    }
    if (!ok) {
        refuse(p->fd, &e);
    }
    return ok ? ENTERS : LEAVES;
}

bool door_listen(struct door *d, unsigned i, struct door_peer *in)
{
    size_t line = 0;
    enum fate fate = d->secret->n == 0 ? ENTERS : listen_to(d, &d->peer[i], &line);
    if (fate == WAITS) {
        return false;
    }
    *in = d->peer[i];
    forget(d, i);
    if (fate == LEAVES) {
        close(in->fd);
        return false;
    }
    if (d->secret->n != 0) { // what came behind the hello
        in->have -= line + 1;
        memmove(in->line, in->line + line + 1, in->have);
    }
    return true;
}

void door_expire(struct door *d, uint64_t now_ns)
{
    while (d->n > 0 && now_ns - d->peer[0].since_ns >= HELLO_NS) { // they stand in the order they came
        close(d->peer[0].fd);
        forget(d, 0);
    }
}

void door_clear(struct door *d, const char *why)
{
    while (d->n > 0) {
        turn_away(d->peer[0].fd, why);
        forget(d, 0);
    }
}
