// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2"
)

// report has the fields of bobtail-load's that the rounds read. A Future ends
// once by its type, so that nothing can be counted as ended twice.
type report struct {
	Offered    uint64            `json:"offered"`
	Sent       uint64            `json:"sent"`
	Completed  uint64            `json:"completed"`
	Dropped    uint64            `json:"dropped"`
	Timeouts   uint64            `json:"timeouts"`
	Errors     uint64            `json:"errors"`
	Corrupt    uint64            `json:"corrupt"`
	Unended    uint64            `json:"unended"`
	ErrorCodes map[string]uint64 `json:"errorCodes"`
}

type generator struct {
	client *r2p2.Client
	start  time.Time
	bytes  int

	mu  sync.Mutex
	out *bufio.Writer
	report
}

func runLoad(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("load", flag.ContinueOnError)
	target := f.String("target", "", "routers")
	rate := f.Float64("rate", 100, "requests per second")
	duration := f.Duration("duration", time.Second, "how long")
	size := f.Int("request-bytes", 64, "size of a request")
	sockets := f.Int("connections", 1, "sockets")
	timeout := f.Duration("timeout", time.Second, "of a request")
	outcomes := f.String("outcome-log", "", "one line per request here, as it ends")
	seed := f.Uint64("seed", 1, "of the arrivals")
	if err := f.Parse(args); err != nil {
		return err
	}
	log, err := os.Create(*outcomes)
	if err != nil {
		return err
	}
	defer log.Close()
	c, err := r2p2.Dial(ctx, r2p2.ClientConfig{Targets: strings.Split(*target, ","), Sockets: *sockets, Timeout: *timeout})
	if err != nil {
		return err
	}
	defer c.Close()
	g := &generator{client: c, start: time.Now(), bytes: *size, out: bufio.NewWriter(log), report: report{ErrorCodes: map[string]uint64{}}}
	g.offer(ctx, rand.New(rand.NewPCG(*seed, 1)), *rate, *duration)
	if err := g.out.Flush(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(&g.report)
}

// offer sends at the times of a Poisson process and waits for every end.
func (g *generator) offer(ctx context.Context, rng *rand.Rand, rate float64, duration time.Duration) {
	var running sync.WaitGroup
	first := rand.Uint64() << 32 // unlike those of other runs
	for due := time.Duration(0); due < duration && ctx.Err() == nil; due += time.Duration(rng.ExpFloat64() / rate * 1e9) {
		time.Sleep(time.Until(g.start.Add(due)))
		serial := first + g.Sent
		body := bodyOf(serial, g.bytes)
		sent := time.Since(g.start)
		future := g.client.Go(context.Background(), &r2p2.Request{Payload: body})
		g.mu.Lock()
		g.Offered++
		g.Sent++
		g.mu.Unlock()
		running.Go(func() {
			reply, err := future.Wait()
			g.end(serial, sent, body, reply, err)
		})
	}
	running.Wait()
}

// bodyOf is a request of which every byte depends on its number.
func bodyOf(serial uint64, n int) []byte {
	body := binary.NativeEndian.AppendUint64(nil, serial)
	rng := rand.New(rand.NewPCG(serial, serial))
	for len(body) < n {
		body = binary.NativeEndian.AppendUint64(body, rng.Uint64())
	}
	return body[:n]
}

func (g *generator) end(serial uint64, sent time.Duration, body []byte, reply *r2p2.ReplyMsg, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	result := "answered"
	switch {
	case err == nil && bytes.Equal(reply.Payload, body):
		g.Completed++
	case err == nil:
		result = "corrupt"
		g.Corrupt++
		g.Errors++
	case errors.Is(err, r2p2.ErrDropped):
		result = "dropped"
		g.Dropped++
	case errors.Is(err, r2p2.ErrTimeout):
		result = "timeout"
		g.Timeouts++
	case errors.Is(err, r2p2.ErrIncomplete):
		result = "error"
		g.Errors++
		g.ErrorCodes["replyIncomplete"]++
	default:
		result = "error"
		g.Errors++
		g.ErrorCodes[err.Error()]++
	}
	fmt.Fprintf(g.out, "%016x %s 0 - %d %d\n", serial, result, sent.Milliseconds(), time.Since(g.start).Milliseconds())
}
