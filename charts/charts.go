// SPDX-License-Identifier: Apache-2.0

// Package charts holds the tests of the chart: what it renders, what its schema
// refuses, and the rights it grants. It has no code of its own.
package charts
