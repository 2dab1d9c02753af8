// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/bobtail-dev/bobtail/clients/go/r2p2/ctl"
)

func TestQueryCount(t *testing.T) {
	for text, want := range map[string]int{"": 7, "1": 1, "60": 60, "0": 0, "-1": 0, "61": 0, "x": 0, "1.5": 0, "99999999999999999999": 0} {
		got, err := QueryCount(url.Values{"seconds": {text}}, "seconds", 7, 60)
		var e *CtlError
		if got != want || (err == nil) != (want > 0) || err != nil && (!errors.As(err, &e) || e.Field != "seconds" || e.Code != ctl.CodeInvalidRequest) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

// What cannot be written as JSON is an error to the reader, not an empty answer.
func TestAnswers(t *testing.T) {
	w := httptest.NewRecorder()
	WriteError(w, http.StatusNotFound, &CtlError{Code: ctl.CodeUnknownHistogram, Field: "name", Message: "is not kept"})
	var r ctl.Reply
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || w.Code != http.StatusNotFound || r.V != ctl.Version || r.OK || r.Error.Field != "name" {
		t.Errorf("%d %s, %v", w.Code, w.Body, err)
	}
	w = httptest.NewRecorder()
	WriteJSON(w, http.StatusOK, math.NaN())
	if w.Code != http.StatusInternalServerError {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
