// SPDX-License-Identifier: Apache-2.0

// Package suite is what make p4 proves of the router program: shared vectors, one behaviour in both architectures,
// lockstep with the simulator's switch, discipline, and planted bugs.
package suite

// Reasons as headers.p4 numbers them; a test holds the two together.
const (
	RShort        = 1
	RMagic        = 2
	RSize         = 3
	RTruncated    = 4
	RFragment     = 5
	RIPOptions    = 6
	RChecksum     = 7
	RLength       = 8
	RType         = 9
	RCount        = 10
	RSingle       = 11
	RIndex        = 12
	RReport       = 13
	RCounters     = 14
	RSource       = 15
	ROptionSize   = 16
	ROptionLength = 17
	RForwarder    = 18
	RTrailing     = 19
	RNotServed    = 20
	ROption       = 21
	RPolicy       = 22
	RNoRoom       = 23
	RFull         = 24
	RLate         = 25
	ROld          = 26
	RReported     = 27
	RCredited     = 28
	RNobody       = 29
	RShed         = 30
	RNowhere      = 31
	reasons       = 32
)
