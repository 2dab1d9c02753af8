// SPDX-License-Identifier: Apache-2.0
// Model checking of what cores share (D-2, Z-13, Z-21, Z-23). A short story is played in every order that its threads'
// steps can have, with every value that the memory model lets them read. A long one in every order with at most so many
// switches away from a thread that could go on.
//
//   model [--long|--first] [NAME]    all stories, or one; prints "NAME switches executions verdict" a line; exit 1 when
//                                    one is broken. --long: more switches; --first: ends at the first one that is
//                                    broken
#include "world.h"

#include <cstdio>
#include <cstring>
#include <ostream>
#include <streambuf>

// D-2: two thieves end stolen flows while the home does its network and gives the token back. When all have stopped,
// nothing waits for a reply that nobody is going to send.
struct token_story : rl::test_suite<token_story, 2> {
    model_world m;
    bt_sched_work stolen;

    void before()
    {
        m.start(2, 1, 1);
        RL_ASSERT(sched_token_try(&m.s, 0, 0));
        m.deliver(0, 0, 0);
        RL_ASSERT(sched_shuffle_steal(&m.s, 1, 0, &stolen));
    }
    void thread(unsigned self)
    {
        if (self == 0) {
            m.finish_network(0);
        } else {
            m.execute(1, stolen);
        }
    }
    void after()
    {
        RL_ASSERT(m.replied[0] == 1);
        m.settle(1, 2);
    }
};

struct token3_story : rl::test_suite<token3_story, 3> {
    model_world m;
    bt_sched_work stolen[2];

    void before()
    {
        m.start(3, 2, 1);
        RL_ASSERT(sched_token_try(&m.s, 0, 0));
        for (uint32_t i = 0; i < 2; i++) {
            m.deliver(0, i, i);
        }
        for (uint32_t i = 0; i < 2; i++) {
            RL_ASSERT(sched_shuffle_steal(&m.s, 1 + i, 0, &stolen[i]));
            m.run_handler(1 + i, stolen[i]);
        }
        RL_ASSERT(!bt_sched_release(&m.s, 0));
    }
    void thread(unsigned self)
    {
        if (self == 0) {
            if (sched_token_try(&m.s, 0, 0)) {
                m.finish_network(0);
            }
        } else if (bt_sched_executed(&m.s, self, stolen[self - 1].flow)) {
            m.finish_network(0);
        }
    }
    void after()
    {
        RL_ASSERT(m.replied[0] == 1 && m.replied[1] == 1);
        m.settle(2, 3);
    }
};

// Z-23: a home and a thief take from one shuffle queue; the thief's lock is only tried.
struct shuffle_story : rl::test_suite<shuffle_story, 2> {
    model_world m;

    void before()
    {
        m.start(2, 2, 1);
        m.deliver(0, 0, 0);
        m.deliver(0, 1, 1);
    }
    void thread(unsigned self)
    {
        bt_sched_work w;
        if (self == 0 ? sched_shuffle_own(&m.s, 0, &w) : sched_shuffle_steal(&m.s, 1, 0, &w)) {
            m.run_handler(self, w);
            bt_sched_executed(&m.s, self, w.flow); // the token stays taken: settle would not find it free
            sched_store(&m.core[0].token, 0u, release);
        }
    }
    void after()
    {
        m.settle(2, 2);
    }
};

// Z-21, Z-22: events of one flow come while a thief executes it: they are executed after, and in their order.
struct order_story : rl::test_suite<order_story, 2> {
    model_world m;

    void before()
    {
        m.start(2, 1, 1);
        RL_ASSERT(sched_token_try(&m.s, 0, 0));
        m.deliver(0, 0, 0);
    }
    void thread(unsigned self)
    {
        bt_sched_work w;
        if (self == 0) {
            m.deliver(0, 1, 0);
            m.finish_network(0);
            if (sched_shuffle_own(&m.s, 0, &w)) {
                m.execute(0, w);
            }
        } else if (sched_shuffle_steal(&m.s, 1, 0, &w)) {
            m.execute(1, w);
        }
    }
    void after()
    {
        m.settle(2, 2);
    }
};

// Z-24, D-2: a core goes to sleep while another makes two flows ready, begins the first and never comes back to the
// second: either the first core sees it, or it is named to be woken.
struct sleep_story : rl::test_suite<sleep_story, 2> {
    model_world m;
    uint32_t named;
    bool sleeps, took;

    void before()
    {
        m.start(2, 2, 1);
        RL_ASSERT(sched_token_try(&m.s, 0, 0));
        named = BT_SCHED_NONE;
        sleeps = took = false;
    }
    void thread(unsigned self)
    {
        bt_sched_work w;
        if (self == 0) {
            m.deliver(0, 0, 0);
            m.deliver(0, 1, 1);
            sched_store(&m.core[0].token, 0u, release);
            w.kind = BT_SCHED_NOTHING;
            m.core[0].polled = 1;
            bt_sched_next(&m.s, 0, &m.rng[0], &w);
            named = w.wake;
            if (w.kind == BT_SCHED_HANDLE) {
                m.run_handler(0, w);
            }
        } else {
            m.core[1].polled = 1;
            bt_sched_next(&m.s, 1, &m.rng[1], &w);
            took = w.kind == BT_SCHED_HANDLE;
            if (took) {
                m.run_handler(1, w);
            }
            sleeps = !took && bt_sched_sleep(&m.s, 1);
        }
    }
    void after()
    {
        bool left = m.executed[0] + m.executed[1] < 2;
        RL_ASSERT(!(left && sleeps && named != 1));
    }
};

// Z-13: a group moves from core 0 to core 1. One event is ready at the old home, one comes there while it leaves, one
// at the new home after the network was told. What waits at a network is a number that its own end counts down.
struct move_story : rl::test_suite<move_story, 2> {
    model_world m;
    rl::atomic<uint32_t> late, redirected;
    uint32_t adopted;

    void before()
    {
        m.start(2, 1, 1);
        m.deliver(0, 0, 0);
        sched_store(&late, 1u, relaxed);
        sched_store(&redirected, 0u, relaxed);
        adopted = 0;
        uint64_t set[BT_SCHED_GROUPS_MAX / 64] = {1};
        RL_ASSERT(bt_sched_move(&m.s, 0, 1, set, 1000));
    }
    // The old home, until it has handed the groups over.
    void leave()
    {
        for (int i = 0; i < 2; i++) {
            if (bt_sched_move_step(&m.s, 0, i > 0, 0) == BT_SCHED_MOVE_REDIRECT) {
                sched_store(&redirected, 1u, release);
                m.deliver(0, 1, 0);
            }
        }
    }
    void come()
    {
        if (sched_load(&redirected, acquire) != 0) {
            m.deliver(1, 2, 0);
            m.executed[3] = 1; /* it was sent */
        }
        for (int i = 0; i < 2; i++) {
            adopted += bt_sched_move_step(&m.s, 1, true, 0) == BT_SCHED_MOVE_DONE;
        }
    }
    void thread(unsigned self)
    {
        bt_sched_work w;
        if (!sched_token_try(&m.s, self, self)) {
            return;
        }
        if (self == 0) {
            leave();
        } else {
            come();
        }
        m.finish_network(self);
        if (sched_shuffle_own(&m.s, self, &w)) {
            m.execute(self, w);
        }
    }
    void after()
    {
        uint32_t sent = m.executed[3] == 1 ? 3u : 2u;
        for (int i = 0; i < 4; i++) {
            for (uint32_t home = 0; home < 2; home++) {
                adopted += bt_sched_move_step(&m.s, home, true, 2000) == BT_SCHED_MOVE_DONE;
            }
        }
        RL_ASSERT(adopted == 1);
        RL_ASSERT(!bt_sched_move_pending(&m.s));
        RL_ASSERT(bt_sched_home(&m.s, 0) == 1 && !bt_sched_moving(&m.s, 0));
        m.settle(sent, 2);
    }
};

// Z-13 with a thief: the flow that moves is being executed by core 1, which is its new home, when the old home is
// asked.
struct move_busy_story : rl::test_suite<move_busy_story, 2> {
    model_world m;
    bt_sched_work stolen;
    uint32_t adopted;

    void before()
    {
        m.start(2, 1, 1);
        adopted = 0;
        m.deliver(0, 0, 0);
        RL_ASSERT(sched_shuffle_steal(&m.s, 1, 0, &stolen));
        m.deliver(0, 1, 0);
        uint64_t set[BT_SCHED_GROUPS_MAX / 64] = {1};
        RL_ASSERT(bt_sched_move(&m.s, 0, 1, set, 0));
    }
    void thread(unsigned self)
    {
        if (self == 1) {
            m.execute(1, stolen);
            if (sched_token_try(&m.s, 1, 1)) {
                adopted += bt_sched_move_step(&m.s, 1, true, 1) == BT_SCHED_MOVE_DONE;
                m.finish_network(1);
            }
            return;
        }
        for (int i = 0; i < 2; i++) {
            if (sched_token_try(&m.s, 0, 0)) {
                m.replies(0);
                bt_sched_move_step(&m.s, 0, true, 1);
                m.finish_network(0);
            }
        }
    }
    void after()
    {
        for (int i = 0; i < 6; i++) {
            uint32_t home = (uint32_t)i % 2u;
            m.replies(home);
            adopted += bt_sched_move_step(&m.s, home, true, 2) == BT_SCHED_MOVE_DONE;
        }
        RL_ASSERT(adopted == 1);
        RL_ASSERT(bt_sched_home(&m.s, 0) == 1);
        m.settle(2, 2);
    }
};

// The same of one flow, all orders.
struct shuffle_short : rl::test_suite<shuffle_short, 2> {
    model_world m;

    void before()
    {
        m.start(2, 1, 1);
        m.deliver(0, 0, 0);
    }
    void thread(unsigned self)
    {
        bt_sched_work w;
        if (self == 0 ? sched_shuffle_own(&m.s, 0, &w) : sched_shuffle_steal(&m.s, 1, 0, &w)) {
            m.run_handler(self, w);
        }
    }
    void after()
    {
        RL_ASSERT(m.executed[0] == 1);
    }
};

// Z-21: an event comes while a thief takes the flow that it is of: it goes with the flow, or waits for its end.
struct event_short : rl::test_suite<event_short, 2> {
    model_world m;

    void before()
    {
        m.start(2, 1, 1);
        m.deliver(0, 0, 0);
    }
    void thread(unsigned self)
    {
        bt_sched_work w;
        if (self == 0) {
            m.deliver(0, 1, 0);
        } else if (sched_shuffle_steal(&m.s, 1, 0, &w)) {
            m.run_handler(1, w);
            RL_ASSERT(sched_get(&m.flow[0].state) == SCHED_FLOW_BUSY);
        }
    }
    void after()
    {
        bool waits = sched_get(&m.flow[0].events.first) != NULL;
        RL_ASSERT(m.executed[0] == 0 || waits == (m.executed[1] == 0));
        RL_ASSERT(sched_load(&m.core[0].ready, relaxed) == (m.executed[0] == 0));
    }
};

// A core goes to sleep while another begins one of two flows: it stays awake, or is named.
struct sleep_short : rl::test_suite<sleep_short, 2> {
    model_world m;
    uint32_t named;
    bool sleeps;

    void before()
    {
        m.start(2, 2, 1);
        named = BT_SCHED_NONE;
        sleeps = false;
    }
    void thread(unsigned self)
    {
        bt_sched_work w;
        if (self == 1) {
            sleeps = bt_sched_sleep(&m.s, 1);
            return;
        }
        m.deliver(0, 0, 0);
        m.deliver(0, 1, 1);
        if (sched_shuffle_own(&m.s, 0, &w)) {
            named = sched_needed(&m.s, 0);
        }
    }
    void after()
    {
        RL_ASSERT(!(sleeps && named != 1));
    }
};

// Z-13: the phases alone, both ends at once, all orders.
struct move_short : rl::test_suite<move_short, 2> {
    model_world m;
    uint32_t adopted;

    void before()
    {
        m.start(2, 1, 1);
        adopted = 0;
        m.deliver(0, 0, 0);
        uint64_t set[BT_SCHED_GROUPS_MAX / 64] = {1};
        RL_ASSERT(bt_sched_move(&m.s, 0, 1, set, 0));
        bt_sched_move_step(&m.s, 0, true, 0);
    }
    void thread(unsigned self)
    {
        for (int i = 0; i < 2; i++) {
            adopted += bt_sched_move_step(&m.s, self, true, 1) == BT_SCHED_MOVE_DONE;
        }
    }
    void after()
    {
        for (int i = 0; i < 4; i++) {
            adopted += bt_sched_move_step(&m.s, (uint32_t)i % 2u, true, 1) == BT_SCHED_MOVE_DONE;
        }
        RL_ASSERT(adopted == 1);
        RL_ASSERT(bt_sched_home(&m.s, 0) == 1);
        m.settle(1, 2);
    }
};

// Z-13: core 2 is no end of the migration that it sees. That one ends, and core 2 is the old home of the next.
struct bystander_story : rl::test_suite<bystander_story, 2> {
    model_world m;

    void before()
    {
        m.start(3, 2, 2);
        sched_store(&m.group[1].owner, 2u, relaxed);
        uint64_t set[BT_SCHED_GROUPS_MAX / 64] = {1};
        RL_ASSERT(bt_sched_move(&m.s, 0, 1, set, 0));
        bt_sched_move_step(&m.s, 0, true, 0);
        bt_sched_move_step(&m.s, 1, true, 1);
    }
    void thread(unsigned self)
    {
        if (self == 1) {
            bt_sched_move_step(&m.s, 2, true, 1);
            return;
        }
        bt_sched_move_step(&m.s, 0, true, 1);
        RL_ASSERT(bt_sched_move_step(&m.s, 1, true, 1) == BT_SCHED_MOVE_DONE);
        uint64_t set[BT_SCHED_GROUPS_MAX / 64] = {2};
        RL_ASSERT(bt_sched_move(&m.s, 2, 1, set, 0));
    }
    void after()
    {
        uint32_t asked = 0, adopted = 0;
        bool begun = bt_sched_moving(&m.s, 1);
        for (int i = 0; i < 6; i++) {
            bt_sched_moved a = bt_sched_move_step(&m.s, 2, true, 2), b = bt_sched_move_step(&m.s, 1, true, 2);
            asked += a == BT_SCHED_MOVE_REDIRECT;
            adopted += b == BT_SCHED_MOVE_DONE;
        }
        RL_ASSERT(adopted == 1 && asked + begun == 1);
        RL_ASSERT(bt_sched_home(&m.s, 0) == 1 && bt_sched_home(&m.s, 1) == 1);
    }
};

enum { ALL = 0 };

struct verdict {
    unsigned long executions;
    bool held;
};

// What relacy says of a story, kept until it is known whether anybody wants it. Its own operator new stands behind all
// strings, and one that it began during a story must not grow after that: so this is a file.
class account : public std::streambuf
{
  public:
    account() : file(std::tmpfile()) {}
    ~account()
    {
        std::fclose(file);
    }
    void print(size_t most)
    {
        std::rewind(file);
        for (int c; most > 0 && (c = std::fgetc(file)) != EOF; most--) {
            std::putchar(c);
        }
        std::putchar('\n');
    }

  protected:
    int overflow(int c)
    {
        return std::fputc(c, file);
    }
    std::streamsize xsputn(const char *text, std::streamsize n)
    {
        return (std::streamsize)std::fwrite(text, 1, (size_t)n, file);
    }

  private:
    std::FILE *file;
};

template <typename story> static verdict play(const char *name, unsigned switches)
{
    account said;
    std::ostream stream(&said);
    rl::test_params p;
    p.output_stream = &stream;
    p.progress_stream = &stream;
    p.search_type = switches == ALL ? rl::sched_full : rl::sched_bound;
    p.context_bound = switches;
    p.execution_depth_limit = 4000;
    bool held = rl::simulate<story>(p);
    char bound[16] = "all";
    if (switches != ALL) {
        std::snprintf(bound, sizeof bound, "%u", switches);
    }
    std::printf("%s %s %llu %s\n", name, bound, (unsigned long long)p.stop_iteration, held ? "held" : "BROKEN");
    if (!held) {
        said.print(6000);
    }
    std::fflush(stdout);
    return {(unsigned long)p.stop_iteration, held};
}

static const struct {
    const char *name;
    verdict (*play)(const char *, unsigned);
    unsigned switches, switches_long;
} stories[] = {
    {"shuffle-short", play<shuffle_short>, ALL, ALL},
    {"event-short", play<event_short>, ALL, ALL},
    {"sleep-short", play<sleep_short>, 4, 6},
    {"move-short", play<move_short>, ALL, ALL},
    {"bystander", play<bystander_story>, ALL, ALL},
    {"token", play<token_story>, 5, ALL},
    {"token-of-three", play<token3_story>, 2, 3},
    {"shuffle", play<shuffle_story>, 3, 5},
    {"order", play<order_story>, 3, 5},
    {"sleep", play<sleep_story>, 3, 5},
    {"move", play<move_story>, 3, 5},
    {"move-busy", play<move_busy_story>, 2, 4},
};

static bool asked(int argc, char **argv, const char *option)
{
    return argc > 1 && std::strcmp(argv[1], option) == 0;
}

int main(int argc, char **argv)
{
    unsigned long broken = 0, played = 0, executions = 0;
    bool at_length = asked(argc, argv, "--long"), first = asked(argc, argv, "--first");
    int options = at_length || first ? 1 : 0;
    const char *only = argc > 1 + options ? argv[1 + options] : NULL;
    for (auto &story : stories) {
        if ((only != NULL && std::strcmp(only, story.name) != 0) || (first && broken != 0)) {
            continue;
        }
        verdict v = story.play(story.name, at_length ? story.switches_long : story.switches);
        played++;
        broken += !v.held;
        executions += v.executions;
    }
    std::printf("%lu stories, %lu executions, %lu broken\n", played, executions, broken);
    return broken == 0 && played != 0 ? 0 : 1;
}
