// SPDX-License-Identifier: Apache-2.0

// Package tongue puts the operations of a history to the service of a group, and reads its answers.
package tongue

import (
	"errors"
	"fmt"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/redis"
	"github.com/bobtail-dev/bobtail/e2e/replica/history"
)

// Tongue is how operations are put to a service. Its answers are not judged here.
type Tongue struct {
	// Ask is the request's body. It may turn the operation into one that the service has.
	Ask func(o *history.Op) []byte
	// Answer puts a reply that is not empty into the operation.
	Answer func(o *history.Op, reply []byte) error
}

// BuiltIn is the language of the service of bobtail-replica.
var BuiltIn = Tongue{
	Ask: (*history.Op).Body,
	Answer: func(o *history.Op, reply []byte) error {
		if len(reply) == 0 {
			return errors.New("an empty reply")
		}
		o.Status, o.Result = reply[0], string(reply[1:])
		return nil
	},
}

// Redis is that of a Redis server: a value is a string of Redis; compare-and-put, which Redis has not, becomes an exchange.
var Redis = Tongue{Ask: askRedis, Answer: answerRedis}

func askRedis(o *history.Op) []byte {
	switch o.Kind {
	case 'G':
		return redis.AppendCommand(nil, "GET", o.Key)
	case 'P':
		return redis.AppendCommand(nil, "SET", o.Key, o.Value)
	case 'A':
		return redis.AppendCommand(nil, "APPEND", o.Key, o.Value)
	default:
		o.Kind = 'X'
		return redis.AppendCommand(nil, "GETSET", o.Key, o.Value)
	}
}

func answerRedis(o *history.Op, reply []byte) error {
	all, err := redis.Parse(reply)
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("%d answers to one command", len(all))
	}
	if err == nil {
		err = all[0].Err()
	}
	if err != nil {
		return fmt.Errorf("%c of %s: %w", o.Kind, o.Key, err)
	}
	o.Status, o.Result = '+', all[0].Text
	return nil
}
