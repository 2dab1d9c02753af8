// SPDX-License-Identifier: Apache-2.0

package wire

// Case says why a packet was rejected: the M-cases of the protocol's rules (§9)
// and those of the header options. Each one has a counter.
type Case uint8

// The cases; OK is no rejection. M1 … M27 are numbered as the rules are.
const (
	OK  Case = 0
	M1  Case = 1  // fewer than 8 bytes
	M2  Case = 2  // magic is not 0xCC
	M3  Case = 3  // header size below 8 or beyond the packet
	M5  Case = 5  // type unknown or not legal for this role
	M6  Case = 6  // policy unknown
	M7  Case = 7  // F with count 0; single-packet type without F|L
	M8  Case = 8  // F|L with count other than 1; F without L with count 1
	M9  Case = 9  // index 0 or at least count on a non-F packet
	M10 Case = 10 // L on another index than count-1, or missing there
	M11 Case = 11 // second F of a pair that differs
	M12 Case = 12 // duplicate index that differs
	M13 Case = 13 // packet in the middle shorter than full
	M14 Case = 14 // longer than the MTU, or message larger than the maximum
	M15 Case = 15 // REQn of an unknown, finished or foreign pair
	M16 Case = 16 // early packet beyond the holding list's bound
	M17 Case = 17 // REPLY of an unknown id, before REQRDY or after completion
	M18 Case = 18 // REQRDY that nobody waits for
	M19 Case = 19 // DROP of an unknown or half-answered pair
	M20 Case = 20 // SACK malformed, out of range or too often
	M21 Case = 21 // FEEDBACK from a stranger, or of an impossible length
	M22 Case = 22 // FEEDBACK whose counters contradict
	M23 Case = 23 // source address no honest peer has
	M24 Case = 24 // tables or buffers full
	M25 Case = 25 // trailing bytes after a fixed-size payload
	M26 Case = 26 // Raft type outside a replication group
	M27 Case = 27 // CANCEL that names no copy

	OptionSize      Case = 28 // header size not a multiple of 4, or above 64
	OptionTruncated Case = 29 // option runs over the header's end
	OptionLength    Case = 30 // known option with an impossible length
	OptionDuplicate Case = 31 // known option twice
	OptionCritical  Case = 32 // unknown option that must be understood
	Forwarder       Case = 33 // forwarded-for by a stranger
	BadTag          Case = 34 // tag missing where mandatory, of an unknown key, or wrong
	Cases           Case = 35 // number of cases, not a case
)

var caseNames = [Cases]string{
	"OK", "M-1", "M-2", "M-3", "M-4", "M-5", "M-6", "M-7", "M-8", "M-9", "M-10", "M-11", "M-12", "M-13",
	"M-14", "M-15", "M-16", "M-17", "M-18", "M-19", "M-20", "M-21", "M-22", "M-23", "M-24", "M-25", "M-26",
	"M-27", "OPT-SIZE", "OPT-TRUNCATED", "OPT-LENGTH", "OPT-DUPLICATE", "OPT-CRITICAL", "FORWARDER", "TAG",
}

// String returns the name used in rules, counters and logs, such as "M-13".
func (c Case) String() string {
	if c < Cases {
		return caseNames[c]
	}
	return "?"
}
