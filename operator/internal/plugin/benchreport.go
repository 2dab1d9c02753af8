// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// printReport passes on what the load wrote. A pod's log holds both of its streams: of
// a JSON report the document alone goes to stdout, so that a program can read it, and
// everything else to stderr.
func printReport(s streams, logs io.Reader, output string) error {
	if output != "json" {
		_, err := io.Copy(s.out, logs)
		return err
	}
	found := false
	for lines := bufio.NewReader(logs); ; {
		line, err := lines.ReadBytes('\n')
		to := s.errs
		if len(line) > 0 && line[0] == '{' && json.Valid(line) {
			to, found = s.out, true
		}
		if _, wrong := to.Write(line); wrong != nil {
			return wrong
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if !found {
		return errors.New("the load printed no report")
	}
	return nil
}

// singleUnit writes a duration as the programs of the dataplane read it: one whole
// number, one unit. Go's own form of a minute and a half is 1m30s.
func singleUnit(d time.Duration) string {
	for _, u := range []struct {
		name string
		of   time.Duration
	}{{"s", time.Second}, {"ms", time.Millisecond}, {"us", time.Microsecond}} {
		if d%u.of == 0 {
			return fmt.Sprintf("%d%s", d/u.of, u.name)
		}
	}
	return fmt.Sprintf("%dns", d)
}
