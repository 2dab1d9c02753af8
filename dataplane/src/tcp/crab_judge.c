// SPDX-License-Identifier: Apache-2.0
// See crab_judge.h; the layout is in docs/reference/protocol.md (C-64).
#include "tcp/crab_judge.h"

#include <sodium/crypto_auth_hmacsha256.h>
#include <sodium/utils.h>
#include <string.h>

#include "tcp/crab_report.h"

enum { VERSION = 2, REPORT = 1, CHALLENGE = 2 };
enum { AT_TYPE = 3, AT_COUNT = 4, AT_ZERO = 6, AT_RUN = 8, AT_SESSION = 16, AT_SENDER = 24, AT_SEQUENCE = 32 };

void bt_crab_judge_init(struct bt_crab_judge *j, uint64_t run)
{
    memset(j, 0, sizeof *j);
    j->run = run != 0 ? run : 1;
}

static void tag_of(const struct bt_crab_secret *secret, const uint8_t *p, uint32_t n, uint8_t tag[BT_CRAB_SIGNED_TAG])
{
    uint8_t whole[crypto_auth_hmacsha256_BYTES];
    crypto_auth_hmacsha256_state state;
    crypto_auth_hmacsha256_init(&state, secret->bytes, secret->len);
    crypto_auth_hmacsha256_update(&state, p, n);
    crypto_auth_hmacsha256_final(&state, whole);
    memcpy(tag, whole, BT_CRAB_SIGNED_TAG);
}

void bt_crab_secret_sign(const struct bt_crab_secret *secret, uint8_t *p, uint32_t n)
{
    tag_of(secret, p, n, p + n);
}

// The secret that made the tag behind p[0..n), or NULL.
static const struct bt_crab_secret *signer(const struct bt_crab_judge *j, const uint8_t *p, uint32_t n)
{
    for (uint32_t i = 0; i < BT_CRAB_SECRETS; i++) {
        uint8_t tag[BT_CRAB_SIGNED_TAG];
        if (j->secrets[i].len == 0) {
            continue;
        }
        tag_of(&j->secrets[i], p, n, tag);
        if (sodium_memcmp(tag, p + n, sizeof tag) == 0) {
            return &j->secrets[i];
        }
    }
    return NULL;
}

static struct bt_crab_told load_of(const uint8_t *p)
{
    struct bt_crab_told told = {.open = bt_get32(p + 20)};
    memcpy(told.server.ip, p, sizeof told.server.ip);
    bt_addr_set_port(&told.server, bt_get16(p + 16));
    return told;
}

static bool well_formed(const uint8_t *p, uint32_t len)
{
    if (len < BT_CRAB_SIGNED_HEAD || p[0] != 'C' || p[1] != 'R' || p[2] != VERSION || p[AT_TYPE] != REPORT) {
        return false;
    }
    uint32_t count = bt_get16(p + AT_COUNT);
    if (count == 0 || count > BT_CRAB_SIGNED_LOADS || bt_get16(p + AT_ZERO) != 0 ||
        len != BT_CRAB_SIGNED_HEAD + count * BT_CRAB_SIGNED_LOAD + BT_CRAB_SIGNED_TAG) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *load = p + BT_CRAB_SIGNED_HEAD + i * BT_CRAB_SIGNED_LOAD;
        struct bt_crab_told told = load_of(load);
        if (bt_addr_bad_source(&told.server) || bt_get16(load + 18) != 0) {
            return false;
        }
    }
    return true;
}

// Opens a session and tells the sender of p of it. Nothing is kept of who asks: a session counts once it is used.
static void open_session(struct bt_crab_judge *j, uint64_t now, const uint8_t *p, const struct bt_crab_secret *secret,
                         uint8_t answer[BT_CRAB_CHALLENGE_BYTES])
{
    uint64_t number = ++j->opened;
    j->sessions[number % BT_CRAB_SESSIONS].opened_ns = now;
    memcpy(answer, p, BT_CRAB_SIGNED_HEAD); // sender and sequence are the sender's own: it knows an answer by them
    answer[AT_TYPE] = CHALLENGE;
    bt_put16(answer + AT_COUNT, 0);
    bt_put64(answer + AT_RUN, j->run);
    bt_put64(answer + AT_SESSION, number);
    bt_crab_secret_sign(secret, answer, BT_CRAB_SIGNED_HEAD);
}

static enum bt_crab_verdict judge(struct bt_crab_judge *j, uint64_t now, const uint8_t *p)
{
    uint64_t number = bt_get64(p + AT_SESSION), sequence = bt_get64(p + AT_SEQUENCE);
    struct bt_crab_session *s = &j->sessions[number % BT_CRAB_SESSIONS];
    if (bt_get64(p + AT_RUN) != j->run || number == 0 || number > j->opened || number < s->number) {
        return BT_CRAB_REPORT_SESSION;
    }
    if (number > s->number) { // its first report, if no session of this place is newer and it was opened just now
        if (j->opened - number >= BT_CRAB_SESSIONS || now - s->opened_ns > BT_CRAB_SESSION_LIFE) {
            return BT_CRAB_REPORT_SESSION;
        }
    } else if (now - s->heard_ns > BT_CRAB_SESSION_LIFE) {
        return BT_CRAB_REPORT_SESSION;
    } else if (sequence <= s->sequence) {
        return BT_CRAB_REPORT_REPLAY;
    }
    s->number = number;
    s->sequence = sequence;
    s->heard_ns = now;
    return BT_CRAB_BELIEVED;
}

enum bt_crab_verdict bt_crab_judge_take(struct bt_crab_judge *j, uint64_t now_ns, const uint8_t *p, uint32_t len,
                                        struct bt_crab_reported *out)
{
    struct bt_crab_load old;
    if (bt_crab_report_read(p, len, &old)) {
        return BT_CRAB_REPORT_UNSIGNED;
    }
    if (!well_formed(p, len)) {
        return BT_CRAB_REPORT_MALFORMED;
    }
    const struct bt_crab_secret *secret = signer(j, p, len - BT_CRAB_SIGNED_TAG);
    if (secret == NULL) {
        return BT_CRAB_REPORT_TAG;
    }
    enum bt_crab_verdict verdict = judge(j, now_ns, p);
    if (verdict == BT_CRAB_REPORT_SESSION) {
        open_session(j, now_ns, p, secret, out->answer);
    }
    if (verdict != BT_CRAB_BELIEVED) {
        return verdict;
    }
    out->n = bt_get16(p + AT_COUNT);
    for (uint32_t i = 0; i < out->n; i++) {
        out->loads[i] = load_of(p + BT_CRAB_SIGNED_HEAD + i * BT_CRAB_SIGNED_LOAD);
    }
    return BT_CRAB_BELIEVED;
}
