// SPDX-License-Identifier: Apache-2.0
// Tables for people, JSON for programs, and the expectations a scenario states.
#include "report.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/counters.h"
#include "router/router.h"
#include "router/router_config.h"
#include "router/words.h"

static const char *const outcome_names[SIM_OUTCOMES] = {"pending", "success", "timeout", "dropped", "error", "refused"};

int sim_measures_open(struct sim_measures *m, const char *path)
{
    *m = (struct sim_measures){0};
    if (path == NULL) {
        return 0;
    }
    m->f = fopen(path, "w");
    if (m->f == NULL) {
        fprintf(stderr, "bobtail-sim: --measurements=%s: %s\n", path, strerror(errno));
        return -1;
    }
    fputs("[", m->f);
    return 0;
}

void sim_measure(struct sim_measures *m, const char *name, double value, const char *unit)
{
    if (m->f == NULL) {
        return;
    }
    fprintf(m->f, "%s\n  {\"name\": \"%s\", \"value\": ", m->n++ > 0 ? "," : "", name);
    if (isfinite(value)) {
        fprintf(m->f, "%.9g", value);
    } else {
        fputs("null", m->f);
    }
    fprintf(m->f, ", \"unit\": \"%s\"}", unit);
}

int sim_measures_close(struct sim_measures *m)
{
    if (m->f == NULL) {
        return 0;
    }
    fputs("\n]\n", m->f);
    int bad = ferror(m->f) | fclose(m->f);
    m->f = NULL;
    if (bad) {
        fprintf(stderr, "bobtail-sim: the measurements file could not be written: %s\n", strerror(errno));
    }
    return bad ? -1 : 0;
}

uint32_t sim_broken(const struct sim_verdict *v)
{
    uint32_t sum = 0;
    for (int i = 0; i < SIM_INVARIANTS; i++) {
        sum += v->broken[i];
    }
    return sum;
}

void sim_verdict_add(struct sim_verdict *a, const struct sim_verdict *b)
{
    for (int i = 0; i < SIM_INVARIANTS; i++) {
        a->broken[i] += b->broken[i];
        a->checked[i] += b->checked[i];
    }
    if (a->first[0] == '\0') {
        memcpy(a->first, b->first, sizeof a->first);
        a->first_ns = b->first_ns;
        a->first_invariant = b->first_invariant;
    }
}

void sim_print_faults(FILE *f, const struct sim_faults_seen *s)
{
    fprintf(f, "  %-10s %12s %12s %12s %12s %12s\n", "faults", "lost", "duplicated", "reordered", "delayed",
            "corrupted");
    for (int k = 0; k < SIM_PKT_ANY; k++) {
        fprintf(f, "  %-10s %12llu %12llu %12llu %12llu %12llu\n", sim_packet_names[k], (unsigned long long)s->lost[k],
                (unsigned long long)s->duplicated[k], (unsigned long long)s->reordered[k],
                (unsigned long long)s->delayed[k], (unsigned long long)s->corrupted[k]);
    }
    struct sim_fault_count kind[SIM_FAULT_COUNTS_MAX];
    uint32_t n = sim_faults_by_kind(s, kind);
    for (uint32_t i = 0; i < n; i++) {
        fprintf(f, "%s%s %llu%s", i % 6 == 0 ? "  " : ", ", kind[i].name, (unsigned long long)kind[i].times,
                i % 6 == 5 || i + 1 == n ? "\n" : "");
    }
}

void sim_print_invariants(FILE *f, const struct sim_verdict *v)
{
    fprintf(f, "  %-14s %14s %8s\n", "invariant", "checked", "broken");
    for (int i = 0; i < SIM_INVARIANTS; i++) {
        if (v->checked[i] == 0 && v->broken[i] == 0) {
            continue;
        }
        fprintf(f, "  %-14s %14llu %8u\n", sim_invariant_names[i], (unsigned long long)v->checked[i], v->broken[i]);
    }
    if (v->first[0] != '\0') {
        fprintf(f, "  first: %s\n", v->first);
    }
}

void sim_print_drops(FILE *f, const uint64_t *router_counter)
{
    const char *between = "";
    for (int c = BT_RC_DROPS_FIRST; c < BT_RC_DROPS_END; c++) {
        if (router_counter[c] == 0) {
            continue;
        }
        fprintf(f, "%s%s %llu", between, bt_router_counter_descs[c].value, (unsigned long long)router_counter[c]);
        between = ", ";
    }
    fputs("\n", f);
}

void sim_json_drops(FILE *f, const uint64_t *router_counter)
{
    for (int c = BT_RC_DROPS_FIRST; c < BT_RC_DROPS_END; c++) {
        fprintf(f, "%s\"%s\": %llu", c > BT_RC_DROPS_FIRST ? ", " : "{", bt_router_counter_descs[c].value,
                (unsigned long long)router_counter[c]);
    }
    fputs("}", f);
}

void sim_print_run(FILE *f, const struct sim_scenario *s, const struct sim_result *r)
{
    double us = 1e3;
    fprintf(f, "%s, seed %llu: %u workers, n %u, %s, %u router(s), %s, %s, load %.3g\n", s->name,
            (unsigned long long)r->seed, s->workers, s->depth, sim_discipline_names[s->discipline], s->routers,
            bt_router_policy_words[s->policy], sim_dist_name(s->service.kind), s->load);
    if (s->drawn[0] != '\0') {
        fprintf(f, "  drawn: %s\n", s->drawn);
    }
    fputs("  outcomes:", f);
    for (int i = 0; i < SIM_OUTCOMES; i++) {
        fprintf(f, " %s %llu", outcome_names[i], (unsigned long long)r->outcome[i]);
    }
    fprintf(
        f, "\n  latency us: mean %.3f p50 %.3f p99 %.3f p99.9 %.3f; throughput %.4f per worker and mean service time\n",
        r->mean_ns / us, r->p50_ns / us, r->p99_ns / us, r->p999_ns / us, r->throughput);
    if (bt_router_drops(r->router_counter) > 0) {
        fputs("  dropped by routers: ", f);
        sim_print_drops(f, r->router_counter);
    }
    fprintf(f, "  packets %llu, events %llu, virtual %.3f s, wall %.3f s\n", (unsigned long long)r->packets,
            (unsigned long long)r->events, (double)r->virtual_ns / 1e9, r->wall_seconds);
    sim_print_faults(f, &r->seen);
    sim_print_invariants(f, &r->verdict);
}

void sim_json_run(FILE *f, const struct sim_scenario *s, const struct sim_result *r)
{
    fprintf(f, "{\"scenario\": \"%s\", \"seed\": %llu, \"drawn\": \"%s\",\n \"outcomes\": {", s->name,
            (unsigned long long)r->seed, s->drawn);
    for (int i = 0; i < SIM_OUTCOMES; i++) {
        fprintf(f, "%s\"%s\": %llu", i > 0 ? ", " : "", outcome_names[i], (unsigned long long)r->outcome[i]);
    }
    fputs("},\n \"droppedByRouter\": ", f);
    sim_json_drops(f, r->router_counter);
    fprintf(f, ",\n \"latencyNanoseconds\": {\"mean\": %.1f, \"p50\": %.0f, \"p99\": %.0f, \"p99.9\": %.0f},\n",
            r->mean_ns, r->p50_ns, r->p99_ns, r->p999_ns);
    fprintf(f, " \"throughput\": %.6f, \"littleError\": %.6f, \"packets\": %llu, \"virtualSeconds\": %.6f,\n",
            r->throughput, r->little_error, (unsigned long long)r->packets, (double)r->virtual_ns / 1e9);
    fprintf(f, " \"copies\": %llu, \"copiesWon\": %llu, \"copiesCancelled\": %llu, \"preemptions\": %llu,\n",
            (unsigned long long)r->seen.copies, (unsigned long long)r->seen.copies_won,
            (unsigned long long)r->seen.cancelled, (unsigned long long)r->seen.preempted);
    fputs(" \"faults\": {", f);
    for (int k = 0; k < SIM_PKT_ANY; k++) {
        fprintf(f,
                "%s\"%s\": {\"lost\": %llu, \"duplicated\": %llu, \"reordered\": %llu, \"delayed\": %llu, "
                "\"corrupted\": %llu}",
                k > 0 ? ", " : "", sim_packet_names[k], (unsigned long long)r->seen.lost[k],
                (unsigned long long)r->seen.duplicated[k], (unsigned long long)r->seen.reordered[k],
                (unsigned long long)r->seen.delayed[k], (unsigned long long)r->seen.corrupted[k]);
    }
    fprintf(f, "},\n \"faultsTotal\": %llu,\n \"invariants\": {", (unsigned long long)sim_faults_total(&r->seen));
    for (int i = 0; i < SIM_INVARIANTS; i++) {
        fprintf(f, "%s\"%s\": {\"checked\": %llu, \"broken\": %u}", i > 0 ? ", " : "", sim_invariant_names[i],
                (unsigned long long)r->verdict.checked[i], r->verdict.broken[i]);
    }
    fprintf(f, "},\n \"first\": \"%s\"}\n", r->verdict.first);
}

/* Share of the requests of one packet, or of several; 1 where there were none. */
static double answered(const struct sim_result *r, int several)
{
    return r->asked[several] > 0 ? (double)r->answered[several] / (double)r->asked[several] : 1;
}

double sim_measure_value(const struct sim_scenario *s, const struct sim_result *r, const char *name)
{
    double mean = s->service.mean_ns;
    const struct {
        const char *name;
        double value;
    } known[] = {
        {"mean", r->mean_ns / mean},
        {"p50", r->p50_ns / mean},
        {"p99", r->p99_ns / mean},
        {"p999", r->p999_ns / mean},
        {"throughput", r->throughput},
        {"littleError", fabs(r->little_error)},
        {"idleWhileWaiting", r->idle_while_waiting_ns / mean},
        {"successShare", (double)r->outcome[SIM_SUCCESS] / (double)s->requests},
        {"success", (double)r->outcome[SIM_SUCCESS]},
        {"timeouts", (double)r->outcome[SIM_TIMEOUT]},
        {"dropped", (double)r->outcome[SIM_DROPPED]},
        {"droppedShare", (double)r->outcome[SIM_DROPPED] / (double)s->requests},
        {"ejected", (double)r->seen.ejected},
        {"failovers", (double)r->seen.failovers},
        {"idWraps", (double)r->seen.id_wraps},
        {"copies", (double)r->seen.copies},
        {"copiesWon", (double)r->seen.copies_won},
        {"copiesCancelled", (double)r->seen.cancelled},
        {"preemptions", (double)r->seen.preempted},
        {"admissionRefused", (double)r->seen.admission_refused},
        {"singleAnswered", answered(r, 0)},
        {"multiAnswered", answered(r, 1)},
        {"halfOpened", (double)r->seen.half_opened},
        {"errors", (double)r->outcome[SIM_ERROR]},
        {"faults", (double)sim_faults_total(&r->seen)},
        {"restarts", (double)r->seen.restarts},
        {"creditsLost", (double)r->router_counter[BT_RC_CREDITS_LOST]},
        {"creditsReclaimed", (double)r->router_counter[BT_RC_CREDITS_RECLAIMED]},
        {"held", (double)r->router_counter[BT_RC_HELD]},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i].name, name) == 0) {
            return known[i].value;
        }
    }
    return NAN;
}

void sim_judge_expectations(const struct sim_scenario *s, struct sim_result *r)
{
    for (uint32_t i = 0; i < s->expect_n; i++) {
        const struct sim_expect *e = &s->expect[i];
        double value = sim_measure_value(s, r, e->measure);
        r->verdict.checked[SIM_INV_EXPECTED]++;
        if (value >= e->low && value <= e->high) {
            continue;
        }
        r->verdict.broken[SIM_INV_EXPECTED]++;
        if (r->verdict.first[0] == '\0') {
            r->verdict.first_invariant = SIM_INV_EXPECTED;
            snprintf(r->verdict.first, sizeof r->verdict.first, "expected: line %d: %s is %.6g, want %.6g to %.6g",
                     e->line, e->measure, value, e->low, e->high);
        }
    }
}
