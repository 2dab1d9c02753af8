// SPDX-License-Identifier: Apache-2.0
// Which commands of Redis a group executes: those whose effect and answer follow from the data alone, each one
// reviewed. Every other one is refused by name, with the reason. Pure: knows nothing of Redis but names.
#ifndef BT_MODULES_REDIS_COMMANDS_H
#define BT_MODULES_REDIS_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>

#include "wire/resp.h"

// Why a command is refused: ROW(NAME, text after "'name' is refused: ").
#define BT_REDIS_REFUSALS(ROW)                                                                                         \
    ROW(EXPIRY, "what lives for a time ends at another moment on each member")                                         \
    ROW(RANDOM, "its result is random")                                                                                \
    ROW(CLOCK, "it reads or keeps times of one server's clock")                                                        \
    ROW(ORDER, "it depends on the order in which one process keeps its data")                                          \
    ROW(BLOCKING, "it waits, and all members would wait")                                                              \
    ROW(SCRIPT, "what a script does is not known before it runs")                                                      \
    ROW(PROCESSOR, "its arithmetic differs between processors")                                                        \
    ROW(TOUCHES, "it changes the data although it counts as a read")                                                   \
    ROW(FOREIGN, "it takes data from elsewhere, or to another database")                                               \
    ROW(CONNECTION, "a request over R2P2 belongs to no connection")                                                    \
    ROW(SERVER, "it concerns one server and not the data")                                                             \
    ROW(UNKNOWN, "it is not in the list of commands that a group executes")

#define BT_REDIS_REFUSAL_VALUE(name, text) BT_REDIS_##name,
enum bt_redis_refusal { BT_REDIS_NOT_REFUSED, BT_REDIS_REFUSALS(BT_REDIS_REFUSAL_VALUE) BT_REDIS_REFUSAL_COUNT };

enum bt_redis_use { BT_REDIS_READ, BT_REDIS_WRITE, BT_REDIS_REFUSED };

struct bt_redis_command {
    const char *name; // in small letters
    enum bt_redis_use use;
    enum bt_redis_refusal why;  // of REFUSED
    const char *never;          // words, each with a blank around, that may not be among its options; NULL: any may
    unsigned options;           // index of the first word that can be one of them
    enum bt_redis_refusal then; // why not
};

extern const struct bt_redis_command bt_redis_commands[];
extern const size_t bt_redis_command_count;

// Commands of other modules that their user vouches for; -1: no room, or a name of Redis' own.
int bt_redis_commands_add(const char *name, enum bt_redis_use use);

// NULL: there is no row of that name.
const struct bt_redis_command *bt_redis_command_find(struct bt_resp_word name);
bool bt_redis_word_is(struct bt_resp_word w, const char *small_letters);

struct bt_redis_verdict {
    enum bt_redis_use use;      // READ or WRITE, or REFUSED
    enum bt_redis_refusal why;  // of REFUSED
    struct bt_resp_word name;   // the command
    struct bt_resp_word option; // that is refused; n = 0: the command itself is
};
struct bt_redis_verdict bt_redis_judge(const struct bt_resp_word *word, unsigned count);

const char *bt_redis_refusal_text(enum bt_redis_refusal why);

#endif
