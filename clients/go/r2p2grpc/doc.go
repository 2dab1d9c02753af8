// SPDX-License-Identifier: Apache-2.0

// Package r2p2grpc carries unary gRPC services over R2P2. Generated code, handlers and
// interceptors stay as they are; two lines change:
//
//	s := r2p2grpc.NewServer()                      // was grpc.NewServer()
//	conn, err := r2p2grpc.NewClient("echo.demo.svc:8000") // was grpc.NewClient(...)
//
// Server is a grpc.ServiceRegistrar and Conn a grpc.ClientConnInterface. Deadlines,
// metadata, status codes with details, and errors of handlers arrive as gRPC-Go gives
// them.
//
// What is different:
//
//   - Methods that stream are refused: R2P2 is one request and one reply. The error has
//     code Unimplemented and names the method.
//   - A message has at most MaxMessage bytes with its metadata, 1 MiB unless told
//     otherwise. A larger one is refused with ResourceExhausted and both numbers.
//   - There is no connection. A call without a deadline ends after the Timeout of the
//     client, because a packet that is lost is not sent again.
//   - Nothing is encrypted, so credentials that ask for a secure transport are refused.
//   - A call that a router or server refused before executing it is Unavailable and may
//     be made again. One of which only parts of the reply arrived is DataLoss: it was
//     executed.
//   - What a handler finds in its context, the peer, metadata and stream, is made when it
//     first asks for something.
//   - Interceptors get a nil *grpc.ClientConn.
package r2p2grpc
