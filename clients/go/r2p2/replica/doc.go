// SPDX-License-Identifier: Apache-2.0

// Package replica is the client of a replication group: a service of several
// members that execute the same requests in the same order. It finds the leader,
// asks again where that is safe, and says what is known of a request that got no
// answer.
//
//	c, err := replica.Dial(ctx, replica.Config{Members: []string{"orders-0.orders:8000", "orders-1.orders:8000"}})
//	reply, err := c.Write(ctx, []byte("..."))   // executed once, on every member
//	reply, err = c.Read(ctx, []byte("..."))     // sees every write that was answered before
//
// In a HovercRaft group Members are its flow-control boxes, or members, which name a box.
//
// A write is asked for again under the same number of its session, so that it is
// executed once however often it arrives. What a failed one means:
//
//   - [ErrNotExecuted]: it was not executed, and never will be.
//   - [ErrUnknownOutcome]: it may have been executed, or may still be, once.
//   - [ErrReplyLost]: it was executed, and its reply is not kept any more.
package replica
