// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
)

// All are asked at once, up to a bound, and one error is nobody else's.
func TestReadAllAsksManyAtOnce(t *testing.T) {
	var asked []Asked
	for i := range 3 * readsAtOnce {
		asked = append(asked, Asked{Name: fmt.Sprint(i), Required: i%2 == 0, Target: Target{Address: fmt.Sprint(i)}})
	}
	var mu sync.Mutex
	inside, most := 0, 0
	full := make(chan struct{})
	got := ReadAll(context.Background(), asked, func(_ context.Context, at Target) (string, error) {
		mu.Lock()
		inside++
		if most = max(most, inside); inside == readsAtOnce && most == readsAtOnce {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		mu.Unlock()
		<-full // nobody goes on before so many are inside
		mu.Lock()
		inside--
		mu.Unlock()
		if at.Address == "7" {
			return "", errors.New("gone")
		}
		return "from " + at.Address, nil
	})
	if most != readsAtOnce {
		t.Errorf("%d were asked at a time, want %d", most, readsAtOnce)
	}
	for i, r := range got {
		if r.Name != asked[i].Name || r.Required != asked[i].Required || (r.Err != nil) != (i == 7) || i != 7 && r.Reply != "from "+r.Name {
			t.Errorf("%d: %+v", i, r)
		}
	}
}
