// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"time"
)

const knockEvery = 50 * time.Millisecond

// await begins a connection every 50 ms until one is answered, and tells when that was. No SYN is waited for: the
// one that was lost comes again after a second, and would hide what took less.
func (r *report) await(addr string, d time.Duration) {
	type reached struct {
		at   time.Time
		name string
	}
	answered := make(chan reached, 1)
	end, tick := time.After(d), time.NewTicker(knockEvery)
	defer tick.Stop()
	for {
		select {
		case one := <-answered:
			r.Connected, r.Servers[one.name] = 1, 1
			r.AnsweredUnixMilliseconds = one.at.UnixMilli()
			return
		case <-end:
			r.Failed, r.Error = 1, "no connection in "+d.String()
			return
		case <-tick.C:
			go func() {
				if name, err := knock(addr); err == nil {
					select {
					case answered <- reached{time.Now(), name}:
					default: // another one was first
					}
				}
			}()
		}
	}
}

func knock(addr string) (string, error) {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return newConnection(c).ask()
}
