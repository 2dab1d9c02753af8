// SPDX-License-Identifier: Apache-2.0

package r2p2_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
)

func shout(_ context.Context, r *r2p2.ServerRequest) ([]byte, error) {
	if len(r.Payload) == 0 {
		return nil, r2p2.ErrDrop // nothing to do, nothing done
	}
	return bytes.ToUpper(r.Payload), nil
}

func Example() {
	ctx := context.Background()
	server, err := r2p2.NewServer(r2p2.ServerConfig{
		Address: netip.MustParseAddr("127.0.0.1"), Workers: 2, Handler: r2p2.HandlerFunc(shout),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	client, err := r2p2.Dial(ctx, r2p2.ClientConfig{Targets: []string{server.Addrs()[0].String()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	reply, err := client.Call(ctx, []byte("hello"))
	fmt.Printf("%s %v\n", reply, err)
	_, err = client.Call(ctx, nil)
	fmt.Println("safe to re-issue:", errors.Is(err, r2p2.ErrDropped))
	// Output:
	// HELLO <nil>
	// safe to re-issue: true
}

// Many requests at a time on one socket.
func ExampleClient_Go() {
	ctx := context.Background()
	server, err := r2p2.NewServer(r2p2.ServerConfig{Address: netip.MustParseAddr("127.0.0.1"), Handler: r2p2.HandlerFunc(shout)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client, err := r2p2.Dial(ctx, r2p2.ClientConfig{Targets: []string{server.Addrs()[0].String()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	var futures []*r2p2.Future
	for _, word := range []string{"one", "two", "three"} {
		futures = append(futures, client.Go(ctx, &r2p2.Request{Payload: []byte(word), Timeout: 20 * time.Second}))
	}
	for _, f := range futures {
		reply, err := f.Wait()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s ", reply.Payload)
	}
	// Output: ONE TWO THREE
}
