// SPDX-License-Identifier: Apache-2.0

package definition

import (
	"math"
	"strconv"
	"strings"
)

// family is a kind of distribution an agent draws from (docs/reference/lancet-agent.md):
// how many values it takes, what they must be, and how it is written.
type family struct {
	min, max int
	ok       func(v []float64) bool
	usage    string
}

var families = map[string]family{
	"fixed":     {1, 1, notNegative, "fixed:V, V at least 0"},
	"rr":        {1, 64, notNegative, "rr:V1:V2:… with 1 to 64 values, each at least 0"},
	"uni":       {2, 2, func(v []float64) bool { return v[0] >= 0 && v[0] <= v[1] }, "uni:LOW:HIGH, 0 <= LOW <= HIGH"},
	"exp":       {1, 1, positive, "exp:MEAN, above 0"},
	"pareto":    {2, 2, positive, "pareto:SCALE:SHAPE, both above 0"},
	"gpareto":   {3, 3, scaled, "gpareto:LOCATION:SCALE:SHAPE, SCALE above 0"},
	"gev":       {3, 3, scaled, "gev:LOCATION:SCALE:SHAPE, SCALE above 0"},
	"bimodal":   {3, 3, func(v []float64) bool { return notNegative(v) && v[2] <= 1 }, "bimodal:V1:V2:SHARE_OF_V2, the share between 0 and 1"},
	"lognorm":   {2, 2, func(v []float64) bool { return v[1] >= 0 }, "lognorm:MU:SIGMA, SIGMA at least 0"},
	"gamma":     {2, 2, positive, "gamma:SHAPE:SCALE, both above 0"},
	"fb-key":    {usage: "fb-key, without values"},
	"fb-value":  {usage: "fb-value, without values"},
	"usr-key":   {usage: "usr-key, without values"},
	"usr-value": {usage: "usr-value, without values"},
}

const familyNames = "a distribution: fixed:V, rr, uni, exp, pareto, gpareto, gev, bimodal, lognorm, gamma, fb-key, fb-value, usr-key or usr-value"

// beyond is more than any size, count or time an experiment means.
const beyond = 1e15

func notNegative(v []float64) bool {
	for _, x := range v {
		if x < 0 {
			return false
		}
	}
	return true
}

func positive(v []float64) bool {
	for _, x := range v {
		if x <= 0 {
			return false
		}
	}
	return true
}

func scaled(v []float64) bool { return v[1] > 0 }

// checkDistribution tells what a text must be for the agent to take it; "" if it does.
func checkDistribution(text string) (want string) {
	name, rest, some := strings.Cut(text, ":")
	f, known := families[name]
	if !known {
		return familyNames
	}
	var values []float64
	if some {
		for part := range strings.SplitSeq(rest, ":") {
			v, err := number(part)
			if err != nil || len(values) == f.max {
				return f.usage
			}
			values = append(values, v)
		}
	}
	if len(values) < f.min || f.ok != nil && !f.ok(values) {
		return f.usage
	}
	return ""
}

// number is a decimal one: nothing else that a float may be written as is meant.
func number(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err == nil && (strings.Trim(text, "+-.0123456789eE") != "" || math.Abs(v) > beyond) {
		err = strconv.ErrSyntax
	}
	return v, err
}

func keyOrder(text string) bool {
	theta, zipf := strings.CutPrefix(text, "zipf:")
	if !zipf {
		return text == "uni" || text == "rr"
	}
	v, err := number(theta)
	return err == nil && strings.Trim(theta, ".0123456789") == "" && v > 0 && v < 1 // digits alone, as the agent reads them
}

// orders of keys where none is asked for; the agent's are the same
// (test_lancet_vectors.c).
var orders = map[string]string{"get-set": "uni", "ycsb-e": "zipf:0.99"}

func (r Requests) check(check checker) {
	for _, field := range []struct{ name, text string }{
		{"requestBytes", r.RequestBytes}, {"replyBytes", r.ReplyBytes}, {"serviceTimeNanoseconds", r.ServiceTime},
		{"keyBytes", r.KeyBytes}, {"valueBytes", r.ValueBytes}, {"scanLength", r.ScanLength},
	} {
		if field.text != "" {
			want := checkDistribution(field.text)
			check(want == "", "requests."+field.name, field.text, want)
		}
	}
	check(r.KeyOrder == "" || keyOrder(r.KeyOrder), "requests.keyOrder", r.KeyOrder, "uni, rr or zipf:THETA, THETA between 0 and 1")
}
