// SPDX-License-Identifier: Apache-2.0
// Commands of Redis in a message, as a member inside a server reads them: what is read says exactly the bytes that were
// there, nothing outside of them is read, a refusal names a byte, and the judgement of each command reads its words
// only.
#include "input.h"

#include <stdio.h>

#include "../modules/redis/commands.h"
#include "wire/resp.h"

static struct bt_resp parsed;

/* The message that the words are, written anew. */
static size_t written(char *out, size_t room)
{
    size_t at = 0;
    for (uint32_t i = 0; i < parsed.commands; i++) {
        const struct bt_resp_command *c = &parsed.command[i];
        at += (size_t)snprintf(out + at, room - at, "*%u\r\n", c->count);
        for (uint32_t k = 0; k < c->count; k++) {
            struct bt_resp_word w = parsed.word[c->first + k];
            at += (size_t)snprintf(out + at, room - at, "$%u\r\n", w.n);
            memcpy(out + at, w.p, w.n);
            memcpy(out + at + w.n, "\r\n", 2);
            at += w.n + 2;
        }
    }
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char again[8192];
    if (size > 4096) {
        return 0;
    }
    uint8_t *exact = malloc(size != 0 ? size : 1); // of its size, for AddressSanitizer
    CHECK(exact != NULL);
    memcpy(exact, data, size);
    if (bt_resp_read(exact, (uint32_t)size, &parsed)) {
        CHECK(parsed.commands > 0 && parsed.commands <= BT_RESP_COMMANDS && parsed.words <= BT_RESP_WORDS);
        CHECK(written(again, sizeof again) == size && memcmp(again, data, size) == 0);
        for (uint32_t i = 0; i < parsed.commands; i++) {
            const struct bt_resp_command *c = &parsed.command[i];
            struct bt_redis_verdict v = bt_redis_judge(&parsed.word[c->first], c->count);
            CHECK((v.use == BT_REDIS_REFUSED) == (v.why != BT_REDIS_NOT_REFUSED));
            CHECK(v.use == BT_REDIS_REFUSED || bt_redis_command_find(parsed.word[c->first])->use == v.use);
        }
    } else {
        CHECK(parsed.at <= size && parsed.why != NULL);
    }
    free(exact);
    return 0;
}
