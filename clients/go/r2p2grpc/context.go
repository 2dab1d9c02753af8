// SPDX-License-Identifier: Apache-2.0

package r2p2grpc

import (
	"context"
	"net"
	"net/netip"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// callContext is the context of a handler: peer, metadata and stream are made
// when something is first asked for, because most handlers ask for nothing.
type callContext struct {
	context.Context
	client netip.AddrPort
	header metadata.MD
	stream *transport

	once sync.Once
	full context.Context
}

// Value is that of the context gRPC-Go would have made.
func (c *callContext) Value(key any) any {
	c.once.Do(func() {
		ctx := peer.NewContext(c.Context, &peer.Peer{Addr: net.UDPAddrFromAddrPort(c.client)})
		ctx = metadata.NewIncomingContext(ctx, orEmpty(c.header))
		c.full = grpc.NewContextWithServerTransportStream(ctx, c.stream)
	})
	return c.full.Value(key)
}
