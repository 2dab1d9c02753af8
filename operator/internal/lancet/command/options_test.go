// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// read parses a command line that measures something, and more.
func read(args ...string) (options, error) {
	return parse(append([]string{"--target=h:1234", "--protocol=echo", "--rate=1000"}, args...), io.Discard)
}

// Agents of this machine are one where no others are named, and up to 64; who only measures are fewer than all of them.
func TestHowManyAgents(t *testing.T) {
	for _, c := range []struct {
		args  []string
		local int
		says  string
	}{
		{nil, 1, ""}, {[]string{"--local=64"}, 64, ""}, {[]string{"--local=65"}, 0, "--local=65: must be between 0 and 64"}, {[]string{"--local=-1"}, 0, "--local=-1: must be between 0 and 64"},
		{[]string{"--agent=a:1"}, 0, ""}, {[]string{"--agent=a:1", "--local=2"}, 2, ""},
		{[]string{"--latency-agents=2", "--local=2", "--agent=a:1"}, 2, ""}, {[]string{"--latency-agents=3", "--local=2", "--agent=a:1"}, 0, "--latency-agents=3: must be fewer than the agents, 3"},
		{[]string{"--latency-agents=1"}, 0, "--latency-agents=1: must be fewer than the agents, 1"}, {[]string{"--output=xml"}, 0, "--output=xml: must be table, json or csv"},
		{[]string{"--plot=x.pdf"}, 0, "--plot=x.pdf: must be a .svg or a .png file"}, {[]string{"--plot=x.png", "--output=csv"}, 1, ""}, {[]string{"--plot=x.svg", "--output=json"}, 1, ""},
	} {
		o, err := read(c.args...)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) || err == nil && o.local != c.local {
			t.Errorf("%v: %d agents of this machine, %v", c.args, o.local, err)
		}
	}
}

// A load by a flag replaces the file's pattern; other flags leave it.
func TestFlagsOnTopOfAFile(t *testing.T) {
	path := file(t, "protocol: echo\nload: {steps: [{requestsPerSecond: 1000, seconds: 1}, {requestsPerSecond: 2000, seconds: 1}]}\n")
	o, err := parse([]string{path, "--target=h:1", "--width=7"}, io.Discard)
	if err != nil || len(o.definition.Load.Steps) != 2 || o.definition.Measurement.WidthMicroseconds != 7 {
		t.Errorf("%+v, %v", o.definition, err)
	}
	o, err = parse([]string{"--target=h:1", path, "--rate=500"}, io.Discard)
	if err != nil || o.definition.Load.RequestsPerSecond != 500 || len(o.definition.Load.Steps) != 0 {
		t.Errorf("%+v, %v", o.definition.Load, err)
	}
	if _, err := parse([]string{path, "--no-such-flag"}, io.Discard); err == nil || !strings.Contains(err.Error(), "lancet --help lists the flags") {
		t.Errorf("%v", err)
	}
	if _, err := parse([]string{path, path}, io.Discard); err == nil || !strings.Contains(err.Error(), "one load definition at most") {
		t.Errorf("%v", err)
	}
	f := flag.NewFlagSet("x", flag.ContinueOnError)
	for _, name := range []string{"a", "rate", "z"} {
		f.Int(name, 0, "")
	}
	if err := f.Parse([]string{"--a=1", "--rate=2", "--z=3"}); err != nil || !given(f, "rate") || given(f, "b") {
		t.Errorf("given: rate %v, b %v, %v", given(f, "rate"), given(f, "b"), err)
	}
	only := flag.NewFlagSet("x", flag.ContinueOnError)
	only.Int("a", 0, "")
	only.Int("rate", 0, "")
	if err := only.Parse([]string{"--a=1"}); err != nil || given(only, "rate") {
		t.Errorf("rate is given by another flag, %v", err)
	}
}

// An agent of this machine is a program that can be run; another file, or none, is not.
func TestWhatCanBeRun(t *testing.T) {
	program, text := filepath.Join(t.TempDir(), "program"), file(t, "")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{program: true, text: false, program + "x": false} {
		if executable(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
	if got := defaultProgram(); got != "bobtail-load" { // beside a test there is none
		t.Errorf("%s", got)
	}
}

// Traces that are sent nowhere are said so before the first request; where none is asked for nothing is opened.
func TestWhereTracesGo(t *testing.T) {
	o := options{}
	end, err := o.trace(context.Background(), nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	end()
	o.definition.Traces.Share, o.definition.Traces.OTLPEndpoint = 0.5, "collector"
	if _, err := o.trace(context.Background(), nil, io.Discard); err == nil || !strings.Contains(err.Error(), `OTLP endpoint "collector"`) {
		t.Errorf("%v", err)
	}
	var log bytes.Buffer
	o.definition.Traces.OTLPEndpoint = "http://127.0.0.1:1"
	if end, err = o.trace(context.Background(), nil, &log); err != nil {
		t.Fatal(err)
	}
	if end(); log.Len() != 0 {
		t.Errorf("nothing was to be sent, and %q is said", log.String())
	}
}
