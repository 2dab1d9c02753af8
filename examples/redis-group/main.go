// SPDX-License-Identifier: Apache-2.0

// Command redis-group sells tickets out of a replication group of Redis servers,
// and shows what a client can know when servers fail: docs/guides/redis.md.
//
//	redis-group --members=cache:8000 sell 1000
//	redis-group --members=cache:8000 count
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/redis"
	"github.com/bobtail-dev/bobtail/clients/go/r2p2/replica"
)

func main() {
	members := flag.String("members", "cache:8000", "names or addresses of members, with commas")
	flag.Parse()
	if err := run(context.Background(), *members, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "redis-group:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, members string, args []string) error {
	c, err := redis.Dial(ctx, replica.Config{Members: strings.Split(members, ",")})
	if err != nil {
		return err
	}
	defer c.Close()
	switch {
	case len(args) == 2 && args[0] == "sell":
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return fmt.Errorf("how many tickets: %w", err)
		}
		return sell(ctx, c, n)
	case len(args) == 1 && args[0] == "count":
		return count(ctx, c)
	default:
		return errors.New("want: sell NUMBER, or count")
	}
}

// sell takes numbers and keeps who has them: two commands with nothing between them.
func sell(ctx context.Context, c *redis.Client, n int) error {
	var sold, refused, unknown int
	for i := range n {
		_, err := c.WriteAll(ctx, redis.Command{"INCR", "tickets"}, redis.Command{"RPUSH", "buyers", fmt.Sprint("buyer-", i)})
		switch {
		case err == nil:
			sold++
		case errors.Is(err, replica.ErrNotExecuted):
			refused++ // it never will be: asking again is safe
		case errors.Is(err, replica.ErrUnknownOutcome):
			unknown++ // it was executed once, or never
		default:
			return err
		}
	}
	fmt.Printf("%d sold, %d not, %d unknown\n", sold, refused, unknown)
	return nil
}

// count reads both sides, which agree: nobody saw one command without the other.
func count(ctx context.Context, c *redis.Client) error {
	all, err := c.ReadAll(ctx, redis.Command{"GET", "tickets"}, redis.Command{"LLEN", "buyers"})
	if err != nil {
		return err
	}
	fmt.Printf("%s tickets, %d buyers\n", all[0].Text, all[1].Int)
	return nil
}
