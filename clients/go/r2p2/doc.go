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
// # Batches
//
// Packets leave and arrive in batches: on Linux with amd64 or arm64 one system call
// reads all that is there, and one sends all that is ready. Packets of one length
// to one address leave as one message that the kernel cuts into datagrams
// (UDP_SEGMENT), as the C programs send them; where the kernel or a device cannot,
// they leave one by one. The datagrams are the same. One that is longer than 2,048
// bytes is none of R2P2's, and is rejected as M-14.
//
// A packet that is alone is sent at once. Callers whose replies came together run
// before what they send next leaves. A reply that is ready waits while the next
// request is executed, if handlers took less than 20 µs lately: at most about
// 100 µs, and not at all when no request is queued.
//
// A port of a client has one timer for all its requests. The payload of a request
// is the caller's again when the call ended.
//
// The packets are those of package wire; they interoperate with Bobtail's C
// programs and, with NoExtensions, with peers that predate header extensions.
package r2p2
