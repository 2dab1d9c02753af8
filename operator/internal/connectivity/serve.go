// SPDX-License-Identifier: Apache-2.0

//go:build linux

package connectivity

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
)

// Server says how to serve.
type Server struct {
	Node      string       // what is answered
	Addresses []netip.Addr // of the pod, one of each family
	Workers   int          // of each address
	Routed    bool         // a server of an RpcService: the sidecar says which routers there are
	R2P2Port  int          // 0: any
	TCPPort   int
}

// pause lets requests that come together reach several servers.
const pause = 5 * time.Millisecond

// Serving is a server that runs.
type Serving struct {
	R2P2 []netip.AddrPort
	TCP  net.Addr
	ends []func() error
}

// Close ends it.
func (s *Serving) Close() error {
	var errs []error
	for _, end := range s.ends {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// Start serves until Close.
func (o Server) Start() (*Serving, error) {
	s := &Serving{}
	if err := o.start(s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (o Server) start(s *Serving) error {
	if len(o.Addresses) == 0 {
		return errors.New("--addresses: must be the pod's addresses, with commas between them")
	}
	answer := r2p2.HandlerFunc(func(ctx context.Context, _ *r2p2.ServerRequest) ([]byte, error) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
			return []byte(o.Node), nil
		}
	})
	for i, a := range o.Addresses {
		if o.Routed && i > 0 {
			break // a service has one family: that of the pod's first address
		}
		server, err := r2p2.NewServer(r2p2.ServerConfig{Address: a, FirstPort: o.R2P2Port, Workers: o.Workers, Handler: answer})
		if err != nil {
			return fmt.Errorf("serve on %s: %w", a, err)
		}
		s.ends = append(s.ends, server.Close)
		s.R2P2 = append(s.R2P2, server.Addrs()...)
		if o.Routed {
			control, err := ctl.Serve(server, ctl.Options{})
			if err != nil {
				return err
			}
			s.ends = append(s.ends, control.Close)
		}
	}
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", o.TCPPort))
	if err != nil {
		return err
	}
	s.TCP = listener.Addr()
	s.ends = append(s.ends, listener.Close)
	go o.answerTCP(listener)
	return nil
}

// answerTCP says the node's name to whoever connects.
func (o Server) answerTCP(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = fmt.Fprintln(c, o.Node)
		_ = c.Close()
	}
}
