// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"strings"
	"time"
)

// A burst of all agents. 32 workers take 10 ms a request: the last of 150 waits some
// 40 ms, half of them more than 20.
const (
	burst            = 150
	leastBurstMedian = 15 * time.Millisecond // of Poisson arrivals at these loads it is 7
)

// gapsManifest is a ConfigMap of recorded arrivals: bursts a microsecond apart, then
// a pause. What counts is the rhythm; the load scales it.
func gapsManifest() string {
	var gaps strings.Builder
	for range burst - 1 {
		gaps.WriteString(" 1000")
	}
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: gaps, namespace: %s}\ndata: {bursts: \"%s 300000000\"}\n", Namespace, gaps.String())
}
