// SPDX-License-Identifier: Apache-2.0

// Package stats decides whether a latency measurement may be believed: the
// confidence interval of a percentile, whether requests left at the times they
// were meant to (Anderson–Darling), whether samples are independent (Spearman
// rank autocorrelation) and whether the system was in a steady state (augmented
// Dickey–Fuller). Formulas and levels: spec lancet.md §5, restated in
// docs/reference/protocol.md as L-40…L-45.
//
// Everything here is a pure function of its samples. Reference values come from
// SciPy and statsmodels (testdata/vectors.json, written by testdata/vectors.py).
package stats
