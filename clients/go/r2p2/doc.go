// SPDX-License-Identifier: Apache-2.0

// Package r2p2 is a client and a server for R2P2, a transport for short remote
// procedure calls over UDP: one request, one reply, no connection, no order
// between calls, and a router in between that sees only the first packet of
// each request and knows how busy every worker is.
//
// # Client
//
//	c, err := r2p2.Dial(ctx, r2p2.ClientConfig{Targets: []string{"echo.demo.svc:8000"}})
//	reply, err := c.Call(ctx, []byte("hello"))
//
// A client stays on one router per socket, moves to another after three
// timeouts in a row or an ICMP error, and looks the names up again every two
// seconds. It never issues a request twice by itself: [ErrDropped] means that
// nothing was executed and trying again is always safe, [ErrTimeout] that
// nobody knows.
//
// Replies come from the worker, an address the client never sent to. Where
// firewalls or network policies select the client, let UDP from the servers in.
//
// # Server
//
//	s, err := r2p2.NewServer(r2p2.ServerConfig{Address: podIP, FirstPort: 8000, Workers: 4, Handler: h})
//	l, err := ctl.Serve(s, ctl.Options{})  // in a pod: configured by its sidecar
//	...
//	err = s.Shutdown(ctx)                  // LEAVE, drain, close
//
// Every worker has a UDP port of its own and executes one request at a time.
// It tells each router how many requests it takes and how many it has finished
// (FEEDBACK); package ctl lets the sidecar of a pod say which routers there
// are. Without routers a server answers clients directly.
//
// The packets are those of package wire; they interoperate with Bobtail's C
// programs and, with NoExtensions, with peers that predate header extensions.
package r2p2
