// SPDX-License-Identifier: Apache-2.0

// Greeter is a stock gRPC service, taken to R2P2 by two lines: those marked below. The
// service itself, its generated code and its client's calls are as they were. Here it is
// gRPC's own health service, so that there is nothing to generate.
//
//	greeter 127.0.0.1:8000            # serve; in a pod of an RpcService without an argument
//	greeter ask 127.0.0.1:8000 shop   # ask, prints SERVING
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	health "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2grpc"
)

// shop is the service: it was written for gRPC and knows nothing of R2P2.
type shop struct {
	health.UnimplementedHealthServer
}

func (shop) Check(_ context.Context, r *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	if r.GetService() != "shop" {
		return &health.HealthCheckResponse{Status: health.HealthCheckResponse_SERVICE_UNKNOWN}, nil
	}
	return &health.HealthCheckResponse{Status: health.HealthCheckResponse_SERVING}, nil
}

func serve(at string) error {
	var lis net.Listener
	if at != "" {
		var err error
		if lis, err = net.Listen("tcp", at); err != nil {
			return err
		}
	}
	s := r2p2grpc.NewServer() // was: grpc.NewServer()
	health.RegisterHealthServer(s, shop{})
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt, syscall.SIGTERM)
	go func() { <-end; s.GracefulStop() }()
	return s.Serve(lis)
}

func ask(target, service string) error {
	conn, err := r2p2grpc.NewClient(target) // was: grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	r, err := health.NewHealthClient(conn).Check(ctx, &health.HealthCheckRequest{Service: service})
	if err != nil {
		return err
	}
	fmt.Println(r.GetStatus())
	return nil
}

func main() {
	args, err := os.Args[1:], error(nil)
	switch {
	case len(args) == 3 && args[0] == "ask":
		err = ask(args[1], args[2])
	case len(args) <= 1:
		err = serve(append(args, "")[0])
	default:
		err = fmt.Errorf("usage: greeter [ADDRESS:PORT] | greeter ask TARGET SERVICE")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "greeter:", err)
		os.Exit(1)
	}
}
