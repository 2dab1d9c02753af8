// SPDX-License-Identifier: Apache-2.0

// Echo is both ends of a unary gRPC echo over R2P2, as e2e/bench/grpc-echo is over
// gRPC-Go: 64 bytes, one client, a fixed number of calls outstanding.
//
//	echo serve PORT
//	echo call PORT WINDOW SECONDS      prints one JSON object
package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2grpc"
)

const method = "/bench.Echo/Echo"

// sockets have 65,536 request ids each, which rest for 0.8 s.
const sockets = 2

func echo(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	in := new(wrapperspb.BytesValue)
	if err := decode(in); err != nil {
		return nil, err
	}
	return in, nil
}

func serve(port string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return err
	}
	s := r2p2grpc.NewServer()
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "bench.Echo",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Echo", Handler: echo}},
	}, nil)
	return s.Serve(listener)
}

func call(port string, window int, seconds float64) error {
	conn, err := r2p2grpc.NewClient("127.0.0.1:"+port, r2p2grpc.WithR2P2(r2p2.ClientConfig{Sockets: sockets}))
	if err != nil {
		return err
	}
	defer conn.Close()
	body := &wrapperspb.BytesValue{Value: bytes.Repeat([]byte("x"), 64)}
	var (
		callers         sync.WaitGroup
		completed, lost atomic.Int64
		wrong           atomic.Value
		start           = time.Now()
		end             = start.Add(time.Duration(seconds * float64(time.Second)))
	)
	for range window {
		callers.Go(func() {
			for time.Now().Before(end) {
				out := new(wrapperspb.BytesValue)
				if conn.Invoke(context.Background(), method, body, out) != nil {
					lost.Add(1)
					continue
				}
				if !bytes.Equal(out.Value, body.Value) {
					wrong.CompareAndSwap(nil, fmt.Errorf("the answer is not its request"))
					return
				}
				completed.Add(1)
			}
		})
	}
	callers.Wait()
	if err, bad := wrong.Load().(error); bad {
		return err
	}
	fmt.Printf("{\"completed\": %d, \"lost\": %d, \"rps\": %.1f}\n", completed.Load(), lost.Load(), float64(completed.Load())/time.Since(start).Seconds())
	return nil
}

func run(args []string) error {
	if len(args) == 2 && args[0] == "serve" {
		return serve(args[1])
	}
	if len(args) == 4 && args[0] == "call" {
		window, err := strconv.Atoi(args[2])
		seconds, err2 := strconv.ParseFloat(args[3], 64)
		if err == nil && err2 == nil && window > 0 && seconds > 0 {
			return call(args[1], window, seconds)
		}
	}
	return fmt.Errorf("usage: echo serve PORT | echo call PORT WINDOW SECONDS")
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}
