// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"sync"
)

// Asked is one of many who are asked the same: the sidecar of a pod, or a node's agent.
type Asked struct {
	Name string // of the pod, or of the node
	// Required says that the picture is incomplete without its answer.
	Required bool
	Target   Target
}

// Reading is the answer of one of them.
type Reading[T any] struct {
	Name     string
	Required bool
	Reply    T
	Err      error
}

// readsAtOnce bounds how many are asked at a time: the answers lie in memory.
const readsAtOnce = 32

// ReadAll asks all of them at the same time, so that one whose node is gone holds up
// nobody, and returns the answers in the order of the asked.
func ReadAll[T any](ctx context.Context, asked []Asked, ask func(context.Context, Target) (T, error)) []Reading[T] {
	out := make([]Reading[T], len(asked))
	var wait sync.WaitGroup
	slots := make(chan struct{}, readsAtOnce)
	for i, a := range asked {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			reply, err := ask(ctx, a.Target)
			out[i] = Reading[T]{Name: a.Name, Required: a.Required, Reply: reply, Err: err}
		})
	}
	wait.Wait()
	return out
}
