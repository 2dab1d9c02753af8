// SPDX-License-Identifier: Apache-2.0

// Package message fits what somebody else said into a field of a status or an
// Event, whose lengths the API server counts in characters.
package message

import "unicode/utf8"

// Bounded is the text, or as many of its first characters as leave room for a sign
// that there was more. `most` is at least 1.
func Bounded(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}
