// SPDX-License-Identifier: Apache-2.0

// Command grouppeer is the clients of a replication group, in a pod: it writes and reads on keys that several clients
// share, keeps what each of them saw, and judges the histories.
//
//	grouppeer serve ORDERS.NAMESPACE.svc:8000    wait for orders; the group has the built-in service
//	grouppeer redis CACHE.NAMESPACE.svc:8000     wait for orders; the group is one of Redis servers
//	grouppeer begin NAME CLIENTS                 let that many clients go
//	grouppeer ready                              whether it takes orders
//	grouppeer state                              how many writes were answered so far
//	grouppeer forget                             measure the longest pause between two answered writes from now on
//	grouppeer end                                stop them, read every key once more, judge
//	grouppeer put KEY VALUE | grouppeer get KEY  one request
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/bobtail-dev/bobtail/e2e/replica/tongue"
)

// port of the orders, on the pod's loopback.
const port = "127.0.0.1:7070"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "grouppeer:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("which order?")
	}
	if speaks, is := tongues[args[0]]; is && len(args) == 2 {
		return serve(args[1], speaks)
	}
	response, err := http.Get("http://" + port + "/" + args[0] + "?args=" + url.QueryEscape(strings.Join(args[1:], " ")))
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", args[0], strings.TrimSpace(string(text)))
	}
	if err != nil {
		return err
	}
	fmt.Println(string(text))
	return nil
}

// tongues by the order that begins a peer.
var tongues = map[string]tongue.Tongue{"serve": tongue.BuiltIn, "redis": tongue.Redis}

func serve(target string, speaks tongue.Tongue) error {
	p, err := dial(target, speaks)
	if err != nil {
		return err
	}
	for name, order := range map[string]func([]string) (any, error){
		"ready": func([]string) (any, error) { return true, nil },
		"begin": p.begin, "state": p.state, "forget": p.forget, "end": p.end, "put": p.put, "get": p.get,
	} {
		http.HandleFunc("/"+name, func(w http.ResponseWriter, r *http.Request) {
			answer, err := order(strings.Fields(r.FormValue("args")))
			if err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
				return
			}
			_ = json.NewEncoder(w).Encode(answer)
		})
	}
	l, err := net.Listen("tcp", port)
	if err != nil {
		return err
	}
	return http.Serve(l, nil)
}
