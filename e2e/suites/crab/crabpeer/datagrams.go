// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// serveDatagrams answers every datagram with a name.
func serveDatagrams(addr, name string) error {
	c, err := net.ListenPacket("udp", addr)
	if err != nil {
		return err
	}
	go func() {
		for b := make([]byte, 2048); ; {
			_, from, err := c.ReadFrom(b)
			if err == nil {
				_, err = c.WriteTo([]byte(name), from)
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, "crabpeer:", err)
			}
		}
	}()
	return nil
}

// send asks with n datagrams, each from a port of its own.
func (r *report) send(addr string, n int) {
	for i := 0; i < n && r.Failed < 3; i++ {
		name, err := sendOne(addr)
		if err != nil {
			r.fail(err)
			continue
		}
		r.Connected++
		r.Servers[name]++
		r.Remote = addr
	}
}

func sendOne(addr string) (string, error) {
	c, err := net.Dial("udp", addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := c.Write([]byte("who")); err != nil {
		return "", err
	}
	b := make([]byte, 2048)
	got, err := c.Read(b)
	return strings.TrimSpace(string(b[:got])), err
}
