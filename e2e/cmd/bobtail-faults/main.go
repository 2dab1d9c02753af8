// SPDX-License-Identifier: Apache-2.0

// Command bobtail-faults runs the real programs in network namespaces, injects
// faults drawn from a seed, and says whether every promise was kept.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/bobtail-dev/bobtail/e2e/faults/rounds"
)

func main() {
	variants := flag.String("variants", "release,keys", "variants, separated by spaces: release|asan|tsan, ipv4|ipv6, encapsulated|transparent, keys, legacy, go, split, fastpath")
	themes := flag.String("themes", "", "themes, separated by spaces; all: "+strings.Join(rounds.Themes, " "))
	seed := flag.Uint64("seed", 1, "seed of the first round of each theme")
	repeat := flag.Int("repeat", 1, "rounds of each theme, each with the next seed")
	measurements := flag.String("measurements", "", "write figures for measure/report/report.py here")
	patience := flag.Duration("patience", time.Minute, "how long to wait for what should become true")
	root := flag.String("root", ".", "tree whose build/ holds the programs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := rounds.Options{Root: *root, Themes: strings.Fields(*themes), Seed: *seed, Repeat: *repeat, Out: os.Stdout, Patience: *patience}
	for text := range strings.FieldsSeq(*variants) {
		v, err := rounds.ParseVariant(text)
		if err != nil {
			fmt.Fprintln(os.Stderr, "bobtail-faults:", err)
			os.Exit(2)
		}
		o.Variants = append(o.Variants, v)
	}
	if err := run(ctx, o, *measurements); err != nil {
		fmt.Fprintln(os.Stderr, "bobtail-faults:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o rounds.Options, measurements string) error {
	res, err := rounds.Run(ctx, o)
	fmt.Println(res.Summary())
	fmt.Printf("%d passed, %d failed\n", res.Clean(), res.Failed())
	if measurements != "" && err == nil {
		err = res.WriteMeasurements(measurements)
	}
	if err == nil && res.Failed() > 0 {
		err = fmt.Errorf("%d rounds broke a promise", res.Failed())
	}
	return err
}
