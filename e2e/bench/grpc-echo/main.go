// SPDX-License-Identifier: Apache-2.0

// Grpc-echo is both ends of a unary echo over gRPC-Go, for comparison with
// libbobtail: 64 bytes, one connection, a fixed number of calls outstanding.
// It is a module of its own so that nothing else depends on gRPC.
//
//	grpc-echo serve PORT
//	grpc-echo call PORT WINDOW SECONDS      prints one JSON object
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
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const method = "/bench.Echo/Echo"

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
	s := grpc.NewServer()
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "bench.Echo",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Echo", Handler: echo}},
	}, nil)
	return s.Serve(listener)
}

func call(port string, window int, seconds float64) error {
	conn, err := grpc.NewClient("127.0.0.1:"+port, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	body := &wrapperspb.BytesValue{Value: bytes.Repeat([]byte("x"), 64)}
	// The connection is made before the clock starts.
	if err := conn.Invoke(context.Background(), method, body, new(wrapperspb.BytesValue), grpc.WaitForReady(true)); err != nil {
		return err
	}
	var (
		callers   sync.WaitGroup
		completed atomic.Int64
		failed    atomic.Value
		start     = time.Now()
		end       = start.Add(time.Duration(seconds * float64(time.Second)))
	)
	for range window {
		callers.Go(func() {
			for time.Now().Before(end) {
				out := new(wrapperspb.BytesValue)
				if err := conn.Invoke(context.Background(), method, body, out); err != nil {
					failed.CompareAndSwap(nil, err)
					return
				}
				if !bytes.Equal(out.Value, body.Value) {
					failed.CompareAndSwap(nil, fmt.Errorf("the answer is not its request"))
					return
				}
				completed.Add(1)
			}
		})
	}
	callers.Wait()
	if err, bad := failed.Load().(error); bad {
		return err
	}
	fmt.Printf("{\"completed\": %d, \"lost\": 0, \"rps\": %.1f}\n", completed.Load(), float64(completed.Load())/time.Since(start).Seconds())
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
	return fmt.Errorf("usage: grpc-echo serve PORT | grpc-echo call PORT WINDOW SECONDS")
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "grpc-echo:", err)
		os.Exit(1)
	}
}
