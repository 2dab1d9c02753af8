// SPDX-License-Identifier: Apache-2.0
// See replica_check_majority.h.
#include "replica_check_majority.h"

#include "replica_disk.h"

static bool voted_for(const struct replica_world *w, uint16_t voter, uint64_t term, uint16_t to)
{
    const struct replica_vote *v = &w->vote[voter][term % REPLICA_VOTES];
    return v->term == term && v->to == to;
}

/* I-1, and a majority of the configuration in its log voted for it. */
void replica_check_election(struct replica_world *w, uint16_t id, const struct bt_replica_status *s)
{
    w->leader_of = replica_grown(w->leader_of, &w->terms_room, s->term, sizeof *w->leader_of);
    uint16_t had = w->leader_of[s->term];
    if (had != 0 && had != id) {
        replica_breach(w, REPLICA_TWO_LEADERS, "members %u and %u both lead term %llu", had, id,
                       (unsigned long long)s->term);
    }
    w->leader_of[s->term] = id;
    struct bt_group_config c;
    uint64_t index;
    replica_config_of(w, id, &c, &index);
    uint32_t votes = 0;
    for (int i = 0; i < c.count; i++) {
        votes += c.member[i].role == BT_GROUP_VOTER && voted_for(w, c.member[i].id, s->term, id);
    }
    if (!replica_may_stand(w, id)) {
        replica_breach(w, REPLICA_MEMBERSHIP, "member %u leads term %llu and has no vote", id,
                       (unsigned long long)s->term);
    }
    if (votes <= replica_voters_of(&c) / 2) {
        replica_breach(w, REPLICA_NO_MAJORITY, "member %u leads term %llu with %u votes of %u", id,
                       (unsigned long long)s->term, votes, replica_voters_of(&c));
    }
    w->count.elections++;
}

/* I-4: what was committed in an earlier term is in its log. */
void replica_check_complete(struct replica_world *w, uint16_t id, const struct bt_replica_status *s)
{
    uint64_t i = w->commit;
    while (i > 0 && w->at[i].at_term >= s->term) {
        i--;
    }
    if (i < s->first) {
        return;
    }
    if (i > s->last || replica_term_at(w->member[id].core, i) != w->at[i].term) {
        replica_breach(w, REPLICA_INCOMPLETE, "member %u leads term %llu without the committed entry %llu", id,
                       (unsigned long long)s->term, (unsigned long long)i);
    }
}

/* A commit is first seen at the leader: a majority of the voters has it on their disks, and it ends in its own term. */
void replica_check_held(struct replica_world *w, uint16_t id, const struct bt_replica_status *s)
{
    uint64_t term = replica_term_at(w->member[id].core, s->commit);
    if (term != s->term) {
        replica_breach(w, REPLICA_INCOMPLETE, "leader %u of term %llu commits up to %llu, an entry of term %llu", id,
                       (unsigned long long)s->term, (unsigned long long)s->commit, (unsigned long long)term);
    }
    struct bt_group_config c;
    uint64_t index;
    replica_config_of(w, id, &c, &index);
    uint32_t holders = 0;
    for (int i = 0; i < c.count; i++) {
        const struct replica_member *m = &w->member[c.member[i].id];
        holders +=
            c.member[i].role == BT_GROUP_VOTER && m->disk != NULL && replica_disk_holds(m->disk, s->commit, term);
    }
    if (holders <= replica_voters_of(&c) / 2) {
        replica_breach(w, REPLICA_NOT_DURABLE, "leader %u commits %llu, which %u of %u voters hold durably", id,
                       (unsigned long long)s->commit, holders, replica_voters_of(&c));
    }
}

/* I-15: a quorum of that membership has it on its disks, with an entry of that term; and never less than before. */
void replica_check_announced(struct replica_world *w, uint64_t term, const struct bt_group_committed *c)
{
    struct replica_aggregator *a = &w->aggregator;
    if (term == a->seen_term && c->epoch == a->seen_epoch && c->commit < a->seen_commit) {
        replica_breach(w, REPLICA_ANNOUNCED, "the aggregator announces %llu after %llu in term %llu",
                       (unsigned long long)c->commit, (unsigned long long)a->seen_commit, (unsigned long long)term);
    }
    a->seen_term = term;
    a->seen_epoch = c->epoch;
    a->seen_commit = c->commit;
    if (c->epoch > w->commit) {
        replica_breach(w, REPLICA_ANNOUNCED, "the aggregator counts by the membership of %llu, which is not committed",
                       (unsigned long long)c->epoch);
        return;
    }
    uint64_t i = c->epoch; /* or a snapshot's last entry, with the membership of before */
    while (i > 0 && !w->at[i].config) {
        i--;
    }
    const struct replica_committed *of = &w->at[i];
    if (c->commit <= w->commit) {
        return; /* judged before */
    }
    uint32_t holders = 0;
    for (int k = 0; k < of->body.count; k++) {
        const struct replica_member *m = &w->member[of->body.member[k].id];
        holders += of->body.member[k].role == BT_GROUP_VOTER && m->disk != NULL &&
                   replica_disk_holds(m->disk, c->commit, term);
    }
    if (holders <= replica_voters_of(&of->body) / 2) {
        replica_breach(w, REPLICA_ANNOUNCED,
                       "the aggregator announces %llu of term %llu, which %u of %u voters hold durably",
                       (unsigned long long)c->commit, (unsigned long long)term, holders, replica_voters_of(&of->body));
    }
}
