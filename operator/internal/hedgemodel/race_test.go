// SPDX-License-Identifier: Apache-2.0

//go:build race

package hedgemodel

// The race detector makes the model ten times slower, and there is nothing in it to
// detect.
func init() { oneIn = 3 }
