// SPDX-License-Identifier: Apache-2.0
// What comes to a balancer's report port (C-64, C-65): datagrams of raw bytes, and such as are almost right, signed or
// not. Only what a holder of the key has signed in a session of this life is believed, each sequence number once.
#include "input.h"

#include "base/bytes.h"
#include "tcp/crab_judge.h"

enum { MOST = 1400, STEP_NS = 1 << 28 };

static struct bt_crab_judge judge;

static const struct bt_crab_secret secret = {.bytes = "a key of sixteen", .len = 16};

// Raw bytes; or a head that is right, with loads of the input's bytes, in a session that may exist. *right: signed.
static uint32_t datagram(struct input *in, uint8_t *p, bool *right)
{
    uint8_t how = in8(in);
    uint32_t count = how >> 4, n = BT_CRAB_SIGNED_HEAD + count * BT_CRAB_SIGNED_LOAD;
    *right = false;
    if ((how & 1) == 0) {
        n = in16(in) % (MOST + 1);
        for (uint32_t i = 0; i < n; i++) {
            p[i] = in8(in);
        }
        return n;
    }
    const uint8_t head[] = {'C', 'R', 2, 1, 0, (uint8_t)count, 0, 0};
    memcpy(p, head, sizeof head);
    bt_put64(p + 8, (how & 2) != 0 ? judge.run : in8(in));
    bt_put64(p + 16, (how & 4) != 0 ? judge.opened - in8(in) % 4 : in8(in));
    bt_put64(p + 24, in8(in));
    bt_put64(p + 32, in8(in));
    for (uint32_t i = BT_CRAB_SIGNED_HEAD; i < n; i++) {
        p[i] = (i - BT_CRAB_SIGNED_HEAD) % BT_CRAB_SIGNED_LOAD < 4 ? in8(in) : 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        bt_put16(p + BT_CRAB_SIGNED_HEAD + i * BT_CRAB_SIGNED_LOAD + 18, 0);
    }
    *right = (how & 8) != 0;
    if (*right) {
        bt_crab_secret_sign(&secret, p, n);
    } else {
        memset(p + n, in8(in), BT_CRAB_SIGNED_TAG);
    }
    return n + BT_CRAB_SIGNED_TAG;
}

static void one(struct input *in, uint64_t now)
{
    uint8_t room[MOST], *p;
    bool right;
    struct bt_crab_reported r, again;
    uint32_t n = datagram(in, room, &right);
    CHECK((p = malloc(n)) != NULL || n == 0); // of its size, for AddressSanitizer
    memcpy(p, room, n);
    uint64_t opened = judge.opened;
    enum bt_crab_verdict v = bt_crab_judge_take(&judge, now, p, n, &r);
    CHECK(right || (v != BT_CRAB_BELIEVED && v != BT_CRAB_REPORT_SESSION && v != BT_CRAB_REPORT_REPLAY));
    CHECK(!right || v != BT_CRAB_REPORT_TAG);
    CHECK(judge.opened == opened + (v == BT_CRAB_REPORT_SESSION));
    if (v == BT_CRAB_BELIEVED) {
        uint64_t session = bt_get64(p + 16);
        CHECK(bt_get64(p + 8) == judge.run && session >= 1 && session <= opened);
        CHECK(r.n >= 1 && n == BT_CRAB_SIGNED_HEAD + r.n * BT_CRAB_SIGNED_LOAD + BT_CRAB_SIGNED_TAG);
        CHECK(bt_crab_judge_take(&judge, now, p, n, &again) == BT_CRAB_REPORT_REPLAY);
    } else if (v == BT_CRAB_REPORT_SESSION) {
        CHECK(bt_get64(r.answer + 16) == judge.opened && memcmp(r.answer + 24, p + 24, 16) == 0);
        CHECK(bt_crab_judge_take(&judge, now, r.answer, sizeof r.answer, &again) == BT_CRAB_REPORT_MALFORMED);
    }
    free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    bt_crab_judge_init(&judge, 0x0102030405060708);
    judge.secrets[1] = secret;
    for (uint64_t now = STEP_NS; in.left > 0; now += in8(&in) * (uint64_t)STEP_NS) {
        one(&in, now);
    }
    return 0;
}
