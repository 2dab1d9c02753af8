// SPDX-License-Identifier: Apache-2.0

// Package hedgemodel says what hedged requests would do to a service: the routers'
// rules under virtual time, with the jitter and the load that were
// measured, and a gate that compares a run with them to one without.
//
// It is a model of its own beside the simulator's because operators decide while
// services run, with as many routers and workers as these have; the simulator's
// table of one router (docs/lab/hedging.md) is what it is held to.
package hedgemodel
