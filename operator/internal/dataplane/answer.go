// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
)

// QueryCount reads a parameter of a query: a number from 1 to most. The error is a
// *CtlError.
func QueryCount(q url.Values, field string, otherwise, most int) (int, error) {
	text := q.Get(field)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, &ctl.Error{
			Code: ctl.CodeInvalidRequest, Field: field, Message: fmt.Sprintf("must be an integer in 1..%d; got %q", most, text),
		}
	}
	return n, nil
}

// WriteError answers a read with an error, as refused reads it.
func WriteError(w http.ResponseWriter, status int, e *CtlError) {
	WriteJSON(w, status, ctl.Reply{V: ctl.Version, Error: e})
}

// WriteJSON answers a read.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}
