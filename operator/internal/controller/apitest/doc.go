// SPDX-License-Identifier: Apache-2.0

// Package apitest holds the tests that need a real API server: what the CRDs
// accept and refuse, what kubectl shows, and the controllers from end to end
// with sidecars that answer over mutual TLS. It has no code of its own.
package apitest
