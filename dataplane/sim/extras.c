// SPDX-License-Identifier: Apache-2.0
// Percentiles, rates and time series from the list of requests, after the run: nothing is paid while it goes on.
#include "extras.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sorted latencies of requests [from, to) of the load; the unanswered are UINT64_MAX and so come last. */
static void latencies(const struct sim_world *w, uint64_t from, uint64_t to, struct sim_samples *out)
{
    sim_samples_init(out, to - from);
    for (uint64_t i = from; i < to; i++) {
        const struct sim_request *r = &w->request[i];
        sim_samples_add(out, r->outcome == SIM_SUCCESS ? r->ended_ns - r->sent_ns : UINT64_MAX);
    }
}

static double percentile(const struct sim_samples *v, double p)
{
    uint64_t x = sim_samples_percentile(v, p);
    return x == UINT64_MAX ? INFINITY : (double)x;
}

static uint64_t sent_in_all(const struct sim_world *w)
{
    return w->requests_made < w->requests_main ? w->requests_made : w->requests_main;
}

static void take_point(const struct sim_world *w, struct sim_extras *out)
{
    struct sim_point *p = &out->point;
    uint64_t n = sent_in_all(w), from = (uint64_t)((double)w->requests_main * w->s->warmup);
    struct sim_samples v;
    double sum = 0, span = (double)(w->window_to_ns - w->window_from_ns) / 1e9;
    from = from < n ? from : n;
    p->measured = n - from;
    for (uint64_t i = from; i < n; i++) {
        const struct sim_request *r = &w->request[i];
        p->outcome[r->outcome]++;
        if (r->outcome != SIM_SUCCESS) {
            continue;
        }
        sum += (double)(r->ended_ns - r->sent_ns);
        bt_hist_record(&out->hist, r->ended_ns - r->sent_ns);
    }
    bt_hist_record_inf(&out->hist, p->measured - p->outcome[SIM_SUCCESS]);
    p->mean_ns = p->outcome[SIM_SUCCESS] > 0 ? sum / (double)p->outcome[SIM_SUCCESS] : NAN;
    p->offered_rps = span > 0 ? (double)w->window_arrivals / span : 0;
    p->achieved_rps = span > 0 ? (double)w->window_done / span : 0;
    latencies(w, from, n, &v);
    p->p50_ns = percentile(&v, 50);
    p->p99_ns = percentile(&v, 99);
    p->p999_ns = percentile(&v, 99.9);
    sim_samples_free(&v);
}

static uint32_t row_at(const struct sim_world *w, const struct sim_extras *out, uint64_t t)
{
    uint64_t i = t > w->load_start_ns ? (t - w->load_start_ns) / out->row_ns : 0;
    return i < SIM_SERIES_MAX ? (uint32_t)i : SIM_SERIES_MAX - 1;
}

static void count(const struct sim_world *w, struct sim_extras *out, const struct sim_request *r)
{
    struct sim_series_row *sent = &out->row[row_at(w, out, r->sent_ns)];
    uint32_t ended = row_at(w, out, r->ended_ns);
    sent->sent++;
    sent->timeouts += r->outcome == SIM_TIMEOUT;
    sent->dropped += r->outcome == SIM_DROPPED;
    sent->errors += r->outcome == SIM_ERROR || r->outcome == SIM_REFUSED;
    if (r->outcome == SIM_SUCCESS) {
        out->row[ended].replies++;
    }
    out->rows = ended >= out->rows ? ended + 1 : out->rows;
}

static void take_series(const struct sim_world *w, struct sim_extras *out)
{
    uint64_t n = sent_in_all(w), from = 0;
    out->row_ns = (uint64_t)w->s->series_ms * 1000000;
    for (uint64_t i = 0; i < n; i++) {
        count(w, out, &w->request[i]);
    }
    for (uint32_t k = 0; k < out->rows; k++) { /* requests lie in order of sending */
        struct sim_samples v;
        latencies(w, from, from + out->row[k].sent, &v);
        out->row[k].p50_ns = v.n > 0 ? percentile(&v, 50) : NAN;
        out->row[k].p99_ns = v.n > 0 ? percentile(&v, 99) : NAN;
        from += out->row[k].sent;
        sim_samples_free(&v);
    }
}

void sim_extras_take(const struct sim_world *w, struct sim_extras *out)
{
    memset(out, 0, sizeof *out);
    take_point(w, out);
    take_series(w, out);
}
