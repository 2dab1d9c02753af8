// SPDX-License-Identifier: Apache-2.0
// Closed forms the simulator is judged by. Every function takes the load 0 < rho < 1.
#include "closed.h"

#include <math.h>
#include <stdlib.h>

#include "stream.h"

double sim_mm1_mean(double rho)
{
    return 1 / (1 - rho);
}

double sim_mm1_quantile(double rho, double p)
{
    return -log(1 - p) / (1 - rho);
}

double sim_erlang_b(int n, double a)
{
    double b = 1;
    for (int i = 1; i <= n; i++) {
        b = a * b / (i + a * b);
    }
    return b;
}

double sim_erlang_c(int n, double rho)
{
    double b = sim_erlang_b(n, n * rho);
    return b / (1 - rho * (1 - b));
}

double sim_mmn_wait(int n, double rho)
{
    return sim_erlang_c(n, rho) / (n * (1 - rho));
}

double sim_mmn_tail(int n, double rho, double t)
{
    double c = sim_erlang_c(n, rho), theta = n * (1 - rho);
    if (fabs(theta - 1) < 1e-9) {
        return exp(-t) * (1 + c * t);
    }
    return (1 - c) * exp(-t) + c * (exp(-theta * t) - theta * exp(-t)) / (1 - theta);
}

/* Smallest t with tail(t) <= 1 - p, by bisection: every tail here falls monotonically. */
static double bisect(double (*tail)(const void *, double), const void *ctx, double p)
{
    double lo = 0, hi = 1;
    while (tail(ctx, hi) > 1 - p) {
        hi *= 2;
    }
    for (int i = 0; i < 100; i++) {
        double mid = (lo + hi) / 2;
        if (tail(ctx, mid) > 1 - p) {
            lo = mid;
        } else {
            hi = mid;
        }
    }
    return hi;
}

struct mmn {
    int n;
    double rho;
};

static double mmn_tail(const void *ctx, double t)
{
    const struct mmn *m = ctx;
    return sim_mmn_tail(m->n, m->rho, t);
}

double sim_mmn_quantile(int n, double rho, double p)
{
    return bisect(mmn_tail, &(struct mmn){n, rho}, p);
}

/* A sojourn whose transform is (n0 + n1·s) / (s² + d1·s + d0): its tail is a sum of two exponentials. */
struct two_poles {
    double n0, n1, d0, d1;
};

static double two_pole_tail(const void *ctx, double t)
{
    const struct two_poles *f = ctx;
    double half = f->d1 / 2, root = sqrt(half * half - f->d0), slow = half - root, fast = half + root;
    double of_slow = (f->n0 - f->n1 * slow) / ((fast - slow) * slow);
    double of_fast = (f->n0 - f->n1 * fast) / ((slow - fast) * fast);
    return of_slow * exp(-slow * t) + of_fast * exp(-fast * t);
}

/* Pollaczek–Khinchine's transform with B*(s) = (2/(2 + s))², where s cancels. */
double sim_me2_1_quantile(double rho, double p)
{
    struct two_poles f = {4 * (1 - rho), 0, 4 * (1 - rho), 4 - rho};
    return bisect(two_pole_tail, &f, p);
}

/* The same with B*(s) = q·a/(a + s) + (1 − q)·b/(b + s), a = 2q, b = 2(1 − q). */
double sim_mh2_1_quantile(double rho, double c2, double p)
{
    double q = sim_hyper_share(c2), a = 2 * q, b = 2 * (1 - q);
    struct two_poles f = {(1 - rho) * a * b, (1 - rho) * (q * a + (1 - q) * b), (1 - rho) * a * b, a + b - rho};
    return bisect(two_pole_tail, &f, p);
}

double sim_mg1_wait(double rho, double c2)
{
    return rho * (1 + c2) / (2 * (1 - rho));
}

/*
 * Number in system of M/D/1 seen by a departure, by level crossing:
 *   p[j+1]·a0 = p[0]·A(j) + Σ_{i=1..j} p[i]·A(j−i+1),  A(m) = Pr[more than m arrivals in a service].
 * Every term is positive, unlike the textbook series of Q-54, whose terms alternate and need
 * 60 digits at high load.
 */
static void md1_states(double rho, double *p, int n)
{
    double *tail = malloc(((size_t)n + 1) * sizeof *tail);
    if (tail == NULL) {
        abort();
    }
    double term = exp(-rho), cdf = term, a0 = term;
    for (int m = 0; m <= n; m++) {
        tail[m] = cdf < 1 ? 1 - cdf : 0;
        term *= rho / (m + 1);
        cdf += term;
    }
    p[0] = 1 - rho;
    for (int j = 0; j + 1 < n; j++) {
        double s = p[0] * tail[j];
        for (int i = 1; i <= j; i++) {
            s += p[i] * tail[j - i + 1];
        }
        p[j + 1] = s / a0;
    }
    free(tail);
}

/*
 * Pr[W <= t] = e^(−x) Σ_{j<k} Q(k−1−j) x^j/j!  with k = ⌊t⌋+1, x = rho·(k − t) and Q(m) the
 * probability of at most m waiting. Equal to Q-54 term by term, without its cancellation.
 */
static double md1_cdf_from(const double *p, int n, double rho, double t)
{
    if (t < 0) {
        return 0;
    }
    int k = (int)floor(t) + 1;
    if (k + 1 >= n) {
        return 1;
    }
    double x = rho * (k - t), weight = exp(-x), sum = 0;
    double waiting = p[0];
    double *q = malloc((size_t)k * sizeof *q);
    if (q == NULL) {
        abort();
    }
    for (int m = 0; m < k; m++) {
        q[m] = waiting += p[m + 1];
    }
    for (int j = 0; j < k; j++) {
        sum += weight * q[k - 1 - j];
        weight *= x / (j + 1);
    }
    free(q);
    return sum;
}

enum { MD1_STATES = 1500 };

double sim_md1_wait_cdf(double rho, double t)
{
    double p[MD1_STATES];
    md1_states(rho, p, MD1_STATES);
    return md1_cdf_from(p, MD1_STATES, rho, t);
}

struct md1 {
    const double *p;
    double rho;
};

static double md1_tail(const void *ctx, double t)
{
    const struct md1 *m = ctx;
    return 1 - md1_cdf_from(m->p, MD1_STATES, m->rho, t);
}

double sim_md1_quantile(double rho, double p)
{
    double states[MD1_STATES];
    md1_states(rho, states, MD1_STATES);
    return 1 + bisect(md1_tail, &(struct md1){states, rho}, p);
}

/*
 * Pr[W <= t] = F(t) = 1 − ρ + ρ ∫ F(t−u)·Pr[S > u] du. With two service times the integral is
 * G(t) − (1−q)·G(t−a) − q·G(t−b), G being the integral of F, so that one pass over the grid solves it.
 */
struct two_point {
    double *f, *g; /* F and G at i·STEP */
    double a, b, q;
};

enum { STEPS_PER_UNIT = 1000, UNITS = 400 };

static double value_at(const double *v, double t)
{
    double x = t * STEPS_PER_UNIT;
    return x < 0 ? 0 : v[x < UNITS * STEPS_PER_UNIT ? (size_t)(x + 0.5) : (size_t)UNITS * STEPS_PER_UNIT];
}

static void solve_two_point(struct two_point *m, double rho)
{
    const double h = 1.0 / STEPS_PER_UNIT;
    m->f[0] = 1 - rho;
    m->g[0] = 0;
    for (size_t i = 1; i <= (size_t)UNITS * STEPS_PER_UNIT; i++) {
        double t = (double)i * h, behind = m->g[i - 1] + h / 2 * m->f[i - 1];
        double known = behind - (1 - m->q) * value_at(m->g, t - m->a) - m->q * value_at(m->g, t - m->b);
        m->f[i] = (1 - rho + rho * known) / (1 - rho * h / 2);
        m->g[i] = behind + h / 2 * m->f[i];
    }
}

static double two_point_tail(const void *ctx, double t)
{
    const struct two_point *m = ctx;
    return 1 - (1 - m->q) * value_at(m->f, t - m->a) - m->q * value_at(m->f, t - m->b);
}

double sim_mg1_two_point_quantile(double rho, double p, double a, double b, double q)
{
    size_t n = (size_t)UNITS * STEPS_PER_UNIT + 1;
    struct two_point m = {malloc(n * sizeof(double)), malloc(n * sizeof(double)), a, b, q};
    if (m.f == NULL || m.g == NULL) {
        abort();
    }
    solve_two_point(&m, rho);
    double t = bisect(two_point_tail, &m, p);
    free(m.f);
    free(m.g);
    return t;
}

double sim_mg1_priority_wait(double rho, double c2, double rho_first, double share_first)
{
    double residual = rho * (1 + c2) / 2, first = residual / (1 - rho_first);
    return share_first * first + (1 - share_first) * first / (1 - rho);
}

/* Requests of length x wait for what is in service and for all that is shorter: ρ/(1 − ρ(x))², ρ(x) = ρ(1 −
 * e^(−x)(1+x)) being the load of those, averaged over x by Simpson's rule. */
double sim_mm1_sjf_wait(double rho)
{
    enum { STEPS = 20000 };
    const double end = 60, h = end / STEPS;
    double sum = 0;
    for (int i = 0; i <= STEPS; i++) {
        double x = i * h, left = 1 - rho * (1 - exp(-x) * (1 + x));
        sum += (i == 0 || i == STEPS ? 1 : i % 2 == 1 ? 4 : 2) * exp(-x) * rho / (left * left);
    }
    return sum * h / 3;
}

double sim_mg1ps_mean(double rho, double x)
{
    return x / (1 - rho);
}

double sim_kingman_wait(double rho, double ca2, double cs2)
{
    return rho * (ca2 + cs2) / (2 * (1 - rho));
}

double sim_mgn_wait_approx(int n, double rho, double c2)
{
    return (1 + c2) / 2 * sim_mmn_wait(n, rho);
}
