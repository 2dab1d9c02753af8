// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// bound is a number of a document, with the least and the most that it may be.
type bound struct {
	field       string
	least, most int
	set         func(d *Document, v int)
}

func scheduling(set func(*Scheduling, int)) func(*Document, int) {
	return func(d *Document, v int) {
		d.Service.Scheduling = &Scheduling{Mode: SchedulingModes[0], BatchSize: 64, MinCores: 1, MaxCores: MaxCores, Ordering: Orderings[0]}
		set(d.Service.Scheduling, v)
	}
}

func flow(set func(*FlowControl, int)) func(*Document, int) {
	return func(d *Document, v int) {
		d.Service.FlowControl = &FlowControl{WaitMicroseconds: 10, PercentilePer100000: 99000, Model: FlowControlModels[0]}
		set(d.Service.FlowControl, v)
	}
}

func hedging(set func(*Hedging, int)) func(*Document, int) {
	return func(d *Document, v int) {
		d.Service.Hedging = &Hedging{Mode: HedgingModes[0], BusyPercent: 50, BudgetPercent: 5, PercentilePer100000: 95000}
		set(d.Service.Hedging, v)
	}
}

func admission(set func(*Admission, int)) func(*Document, int) {
	return func(d *Document, v int) {
		d.Service.Admission = &Admission{Mode: AdmissionModes[0], Controller: Controllers[0], LatencyMicroseconds: 100, PercentilePer100000: 99000, DroppableClasses: []int{7, 0}}
		set(d.Service.Admission, v)
	}
}

// copies gives each of n routers ports of its own.
func copies(d *Document, n int) {
	d.Routers = nil
	for i := range n {
		d.Routers = append(d.Routers, Router{"10.244.1.9", 8000 + i, 9000 + i, "r"})
	}
}

var bounds = []bound{
	{"service.workerQueueDepth", 1, MaxWorkerQueueDepth, func(d *Document, v int) { d.Service.WorkerQueueDepth = v }},
	{"service.centralQueueLimit", 1, MaxCentralQueueLimit, func(d *Document, v int) { d.Service.CentralQueueLimit = v }},
	{"service.maxQueueMilliseconds", 1, MaxQueueMilliseconds, func(d *Document, v int) { d.Service.MaxQueueMilliseconds = v }},
	{"service.requestTimeoutMilliseconds", 1, MaxTimeoutMilliseconds, func(d *Document, v int) { d.Service.RequestTimeoutMilliseconds = v }},
	{"service.workersPerReplica", 1, MaxWorkersPerReplica, func(d *Document, v int) { d.Service.WorkersPerReplica = v }},
	{"service.holdBack.packets", 0, MaxHoldBackPackets, func(d *Document, v int) { d.Service.HoldBack.Packets = v }},
	{"service.holdBack.microseconds", 0, MaxHoldBackMicroseconds, func(d *Document, v int) { d.Service.HoldBack.Microseconds = v }},
	{"service.scheduling.batchSize", 1, MaxBatchSize, scheduling(func(s *Scheduling, v int) { s.BatchSize = v })},
	{"service.scheduling.minCores", 1, MaxCores, scheduling(func(s *Scheduling, v int) { s.MinCores = v })},
	{"service.scheduling.minCores", 1, 3, scheduling(func(s *Scheduling, v int) { s.MinCores, s.MaxCores = v, 3 })},
	{"service.scheduling.maxCores", 1, MaxCores, scheduling(func(s *Scheduling, v int) { s.MaxCores = v })},
	{"service.flowControl.waitMicroseconds", 1, MaxWaitMicroseconds, flow(func(f *FlowControl, v int) { f.WaitMicroseconds = v })},
	{"service.flowControl.percentilePer100000", MinAdmissionPercentile, MaxAdmissionPercentile, flow(func(f *FlowControl, v int) { f.PercentilePer100000 = v })},
	{"service.hedging.busyPercent", 1, 100, hedging(func(h *Hedging, v int) { h.BusyPercent = v })},
	{"service.hedging.budgetPercent", 1, 100, hedging(func(h *Hedging, v int) { h.BudgetPercent = v })},
	{"service.hedging.percentilePer100000", MinAdmissionPercentile, MaxAdmissionPercentile, hedging(func(h *Hedging, v int) { h.PercentilePer100000 = v })},
	{"service.hedging.probePerMillion", 0, MaxProbePerMillion, hedging(func(h *Hedging, v int) { h.ProbePerMillion = v })},
	{"service.admission.latencyMicroseconds", 1, MaxAdmissionMicros, admission(func(a *Admission, v int) { a.LatencyMicroseconds = v })},
	{"service.admission.percentilePer100000", MinAdmissionPercentile, MaxAdmissionPercentile, admission(func(a *Admission, v int) { a.PercentilePer100000 = v })},
	{"service.admission.droppableClasses[1]", 0, MaxClass, admission(func(a *Admission, v int) { a.DroppableClasses = []int{3, v} })},
	{"members[0].firstPort", 1, 65535, func(d *Document, v int) { d.Members[0].FirstPort, d.Members[0].Workers = v, 1 }},
	{"members[0].workers", 1, MaxWorkersPerReplica, func(d *Document, v int) { d.Members[0].Workers = v }},
	{"members[0].workers", 1, 6, func(d *Document, v int) { d.Members[0].FirstPort, d.Members[0].Workers = 65530, v }},
	{"routers", 0, MaxRouters, copies},
	{"routers[0].requestPort", 1, 65535, func(d *Document, v int) { d.Routers[0].RequestPort = v }},
	{"routers[0].feedbackPort", 1, 65535, func(d *Document, v int) { d.Routers[0].FeedbackPort = v }},
	{"keyIds", 0, MaxKeyIDs, func(d *Document, v int) { d.KeyIDs = []int{1, 2, 3, 4}[:v] }},
	{"keyIds[1]", 1, 255, func(d *Document, v int) { d.KeyIDs = []int{7, v} }},
	{"sources", 0, MaxSources, func(d *Document, v int) {
		d.Sources = nil
		for i := range v {
			d.Sources = append(d.Sources, Source{"RpcService", "demo", fmt.Sprint(i), "u", 3})
		}
	}},
}

// Each number is taken at both of its bounds, and refused by its name one beyond them.
func TestEachNumberHasItsBounds(t *testing.T) {
	for _, b := range bounds {
		for _, v := range []int{b.least, b.most} {
			if err := judged(t, b, v); err != nil {
				t.Errorf("%s %d: %v", b.field, v, err)
			}
		}
		beyond := []int{b.most + 1}
		if !slices.Contains([]string{"routers", "keyIds", "sources"}, b.field) { // a list never has fewer than none
			beyond = append(beyond, b.least-1)
		}
		for _, v := range beyond {
			var f *FieldError
			if err := judged(t, b, v); !errors.As(err, &f) || f.Field != b.field {
				t.Errorf("%s %d: %v", b.field, v, err)
			}
		}
	}
}

func judged(t *testing.T, b bound, v int) error {
	t.Helper()
	d, err := Parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	b.set(d, v)
	return d.Validate()
}
