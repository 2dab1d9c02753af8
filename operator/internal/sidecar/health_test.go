// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobtail-dev/bobtail/operator/internal/dataplane"
)

// K-28: a sidecar whose token is dead says so, with what the API server said, while the
// dataplane serves on; and it says which keys the configuration names.
func TestK28ADeadTokenShowsInTheState(t *testing.T) {
	r := start(t)
	operator := r.ca.client(t, dataplane.OperatorCommonName)
	one, hash := content(t, 3, 7)
	r.api.set(one)
	eventually(t, "configuration", r.runs(hash))
	state := func() *dataplane.SidecarState {
		st, err := operator.State(t.Context(), r.read)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	eventually(t, "a watch that works", func() bool {
		st := state()
		return st.Watch != nil && !st.Watch.Failing() && st.Watch.Hash == hash && st.Watch.ReadSecondsAgo >= 0 && slices.Equal(st.KeyIDs, []int{7})
	})
	r.api.revoke(true)
	eventually(t, "the 401 in /v1/state", func() bool {
		w := state().Watch
		return w.Failing() && w.Status == http.StatusUnauthorized && strings.Contains(w.Error, "who are you")
	})
	if st := state(); st.AppliedHash != hash || st.LastError != nil {
		t.Errorf("the dataplane was touched: %+v", st)
	}
	eventually(t, "the gauge", func() bool {
		return regexp.MustCompile(`bobtail_config_watch_failing_seconds\S* [1-9]`).MatchString(r.scrape(t))
	})
	r.api.revoke(false)
	two, hash2 := content(t, 5, 7)
	r.api.set(two)
	eventually(t, "what changed meanwhile", func() bool { w := state().Watch; return !w.Failing() && w.Hash == hash2 && w.Status == 0 })
}

func TestHealthCountsFromTheFirstFailure(t *testing.T) {
	now := time.Unix(1000, 0)
	h := &health{now: func() time.Time { return now }}
	if w := h.state(); w.ReadSecondsAgo != -1 || w.Failing() {
		t.Errorf("before anything: %+v", w)
	}
	h.worked("h")
	for range 3 {
		now = now.Add(10 * time.Second)
		h.failed(&statusError{Code: 403, Message: "no"})
	}
	if w := h.state(); w.FailingSeconds != 20 || w.ReadSecondsAgo != 30 || w.Status != 403 || w.Hash != "h" {
		t.Errorf("%+v", w)
	}
	h.failed(errors.New("connection refused"))
	if w := h.state(); w.Status != 0 || w.Error != "connection refused" || w.FailingSeconds != 20 {
		t.Errorf("%+v", w)
	}
	h.worked("")
	if w := h.state(); w.Failing() || w.FailingSeconds != 0 || w.ReadSecondsAgo != 0 || w.Hash != "h" {
		t.Errorf("%+v", w)
	}
}
