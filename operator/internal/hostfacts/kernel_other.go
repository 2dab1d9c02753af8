// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package hostfacts

// Links of a system that has no virtual functions.
func Links(string) map[int]VirtualLink { return nil }

// XDP of a system that has none.
func XDP(string) XDPFeatures { return XDPFeatures{} }
