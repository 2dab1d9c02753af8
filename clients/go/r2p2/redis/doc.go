// SPDX-License-Identifier: Apache-2.0

// Package redis is a client of a replication group of Redis servers, members by
// the module bobtail-redis. Commands travel over R2P2, as Redis' own bytes.
//
// The caller says what is a write and what is a read: the group refuses a
// write that came as a read, and executes a read that came as a write on every
// member. Several commands of one request are executed with nothing between them.
//
// What replica.Client says of outcomes holds here: replica.ErrNotExecuted,
// replica.ErrUnknownOutcome and the rest come through as they are. An Error is
// an answer: the command was executed, or refused for good, and changed nothing
// that Redis does not change with that error.
package redis
