// SPDX-License-Identifier: Apache-2.0

// Package command is the program lancet: it reads a load definition, finds agents,
// runs the experiments and writes what they found.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/bobtail-dev/bobtail/operator/internal/lancet/report"
)

// Exit codes (L-31).
const (
	ExitConclusive   = 0
	ExitFailed       = 1 // no measurement could be made
	ExitUsage        = 2
	ExitInconclusive = 3 // measured, but not to be trusted; the output says why
)

// Main runs the program and returns its exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return ExitConclusive
	case err != nil:
		fmt.Fprintf(stderr, "lancet: %v\n", err)
		return ExitUsage
	}
	document, err := run(ctx, o, stderr)
	if len(document.Points) > 0 { // what was seen before it failed is worth seeing
		err = errors.Join(err, o.write(stdout, document))
	}
	if o.summary != "" {
		err = errors.Join(err, os.WriteFile(o.summary, report.Summarise(document, err), 0o600))
	}
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "lancet: %v\n", err)
		return ExitFailed
	case document.Changing || document.Conclusive(), o.summary != "":
		return ExitConclusive // with a summary the verdict stands there, and the program did its work (K-33)
	}
	return ExitInconclusive
}

// write puts the document where it was asked for, in every form.
func (o options) write(stdout io.Writer, d report.Document) error {
	var all []error
	to := func(path string, put func(io.Writer, report.Document) error) {
		if path != "" {
			all = append(all, toFile(path, func(w io.Writer) error { return put(w, d) }))
		}
	}
	to(o.csv, report.CSV)
	to(o.json, report.JSON)
	if o.plot != "" {
		all = append(all, report.Plot(o.plot, d))
	}
	form := map[string]func(io.Writer, report.Document) error{"table": report.Table, "json": report.JSON, "csv": report.CSV}[o.output]
	return errors.Join(append(all, form(stdout, d))...)
}

func toFile(path string, put func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(put(f), f.Close())
}
