// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/replica"
)

// Client asks a group. It is safe for concurrent use.
type Client struct{ group *replica.Client }

// Command is a command and its words.
type Command []string

// Dial is replica.Dial.
func Dial(ctx context.Context, cfg replica.Config) (*Client, error) {
	group, err := replica.Dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Client{group}, nil
}

// Close ends every outstanding request.
func (c *Client) Close() error { return c.group.Close() }

// Write has the group execute one command, once, on every member. The error is
// an Error when Redis answered with one.
func (c *Client) Write(ctx context.Context, words ...string) (Value, error) {
	return only(c.WriteAll(ctx, words))
}

// Read has the group execute one command that changes nothing, in its order
// among the writes.
func (c *Client) Read(ctx context.Context, words ...string) (Value, error) {
	return only(c.ReadAll(ctx, words))
}

// ReadAt asks one member what it knows now, which may be less than others know.
func (c *Client) ReadAt(ctx context.Context, member netip.AddrPort, words ...string) (Value, error) {
	reply, err := c.group.ReadAt(ctx, member, request([]Command{words}))
	return only(answers(reply, err, 1))
}

// WriteAll is Write with several commands, and nothing between them. An answer
// that is an error ends nothing: the commands behind it are executed.
func (c *Client) WriteAll(ctx context.Context, commands ...Command) ([]Value, error) {
	reply, err := c.group.Write(ctx, request(commands))
	return answers(reply, err, len(commands))
}

// ReadAll is Read with several commands, and nothing between them.
func (c *Client) ReadAll(ctx context.Context, commands ...Command) ([]Value, error) {
	reply, err := c.group.Read(ctx, request(commands))
	return answers(reply, err, len(commands))
}

func request(commands []Command) (p []byte) {
	for _, words := range commands {
		p = AppendCommand(p, words...)
	}
	return p
}

// answers reads as many as there were commands; a single error instead of them
// refuses them all.
func answers(reply []byte, err error, want int) ([]Value, error) {
	if err != nil {
		return nil, err
	}
	all, err := Parse(reply)
	if err != nil {
		return nil, err
	}
	if len(all) == 1 && want > 1 && all[0].Err() != nil {
		return nil, all[0].Err()
	}
	if len(all) != want {
		return nil, fmt.Errorf("%w: %d answers to %d commands", errAnswer, len(all), want)
	}
	return all, nil
}

func only(all []Value, err error) (Value, error) {
	if err != nil {
		return Value{}, err
	}
	return all[0], all[0].Err()
}
