// SPDX-License-Identifier: Apache-2.0

// Package crabwords names CRAB's policies once: in annotations of Services, in what
// an RpcService over TCP asks for, and in the configuration and status of nodes.
package crabwords

// A policy decides which server gets a new connection (C-60…C-62).
const (
	RoundRobin       = "RoundRobin"
	RoundRobinPerCPU = "RoundRobinPerCPU"
	Random           = "Random"
	Hash             = "Hash"
	PowerOfTwo       = "PowerOfTwo"
	Least            = "Least"
)

// Policies are all of them. The place of a name is the policy's number in the maps
// of the programs; the first is the default.
var Policies = []string{RoundRobin, RoundRobinPerCPU, Random, Hash, PowerOfTwo, Least}
