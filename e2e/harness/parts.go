// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Part of a suite that can be played without the others.
type Part struct {
	Name string
	Play func(context.Context) error
}

// Choose gives the parts of those names, in the suite's order; all of them without a name.
func Choose(all []Part, only []string) ([]Part, error) {
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	for _, name := range only {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("--only must name parts of %s; got %q", strings.Join(names, ", "), name)
		}
	}
	if len(only) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(slices.Clone(all), func(p Part) bool { return !slices.Contains(only, p.Name) }), nil
}

// PlayAll plays parts, one after the other; one that fails hides none of the others.
func PlayAll(ctx context.Context, parts []Part) (failed error) {
	for _, p := range parts {
		failed = errors.Join(failed, p.Play(ctx))
	}
	return failed
}
