// SPDX-License-Identifier: Apache-2.0
// Closed forms of queueing.md §3 (Q-50…Q-57), in units of the mean service time.
#ifndef BOBTAIL_SIM_CLOSED_H
#define BOBTAIL_SIM_CLOSED_H

/* M/M/1 mean sojourn and p-quantile (0 < p < 1) of the sojourn. */
double sim_mm1_mean(double rho);
double sim_mm1_quantile(double rho, double p);
/* Erlang B and C for n servers offered a = n·rho erlang; mean wait of M/M/n. */
double sim_erlang_b(int n, double a);
double sim_erlang_c(int n, double rho);
double sim_mmn_wait(int n, double rho);
/* Pr[sojourn > t] of M/M/n and its p-quantile. */
double sim_mmn_tail(int n, double rho, double t);
double sim_mmn_quantile(int n, double rho, double p);
/* Pollaczek–Khinchine mean wait of M/G/1 with squared coefficient of variation c2. */
double sim_mg1_wait(double rho, double c2);
/* Pr[wait <= t] of M/D/1 and p-quantile of its sojourn. */
double sim_md1_wait_cdf(double rho, double t);
double sim_md1_quantile(double rho, double p);
/* M/G/1 whose service takes a (share 1 − q) or b > a (share q), mean 1: p-quantile of the sojourn,
 * from the renewal equation of the waiting time solved on a grid of 1/1000. Bimodal-1 is (0.5, 5.5, 0.1). */
double sim_mg1_two_point_quantile(double rho, double p, double a, double b, double q);
/* Cobham's mean wait of M/G/1 that serves one of two kinds of requests first and interrupts nobody: rho_first of
 * the load and a share of the requests. SJF of two service times is that with the shorter ones first. */
double sim_mg1_priority_wait(double rho, double c2, double rho_first, double share_first);
/* Phipps' mean wait of M/M/1 under SJF. */
double sim_mm1_sjf_wait(double rho);
/* M/G/1 processor sharing, mean sojourn of a request of size x (insensitive to the rest). */
double sim_mg1ps_mean(double rho, double x);
/* Kingman's heavy-traffic mean wait. */
double sim_kingman_wait(double rho, double ca2, double cs2);
/* p-quantile of the sojourn of M/E2/1, and of M/H2/1 whose two kinds make half of the work each. */
double sim_me2_1_quantile(double rho, double p);
double sim_mh2_1_quantile(double rho, double c2, double p);
/* Lee–Longton approximation of the mean wait of M/G/n. */
double sim_mgn_wait_approx(int n, double rho, double c2);

#endif
