// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Stationarity is the outcome of an augmented Dickey–Fuller test with a constant
// (L-42). The null hypothesis is a unit root: a small p says the series is
// stationary.
type Stationarity struct {
	Statistic    float64 // t value of the level's coefficient
	P            float64 // MacKinnon (1994) approximation
	Lags         int     // differences in the regression, chosen by Akaike's criterion
	Observations int     // rows of the regression
}

// ErrTooShort: no test can be made of so few samples.
var ErrTooShort = errors.New("too few samples")

// ErrConstant: all samples are equal, so there is nothing to regress.
var ErrConstant = errors.New("all samples are equal")

// errSingular: the samples before determine the next one exactly.
var errSingular = errors.New("the series repeats itself too regularly to be tested")

// AugmentedDickeyFuller tests a series in order of time.
func AugmentedDickeyFuller(series []float64) (Stationarity, error) {
	n := len(series)
	most := min(int(math.Ceil(12*math.Pow(float64(n)/100, 0.25))), n/2-2)
	if most < 0 || n < 8 {
		return Stationarity{}, fmt.Errorf("%d samples, at least 8 are needed: %w", n, ErrTooShort)
	}
	if constant(series) {
		return Stationarity{}, ErrConstant
	}
	lag, err := bestLag(series, most)
	if err != nil {
		return Stationarity{}, err
	}
	t, err := levelT(regress(series, lag))
	if err != nil {
		return Stationarity{}, err
	}
	return Stationarity{Statistic: t, P: mackinnonP(t), Lags: lag, Observations: n - 1 - lag}, nil
}

func constant(series []float64) bool {
	for _, v := range series {
		if v != series[0] {
			return false
		}
	}
	return true
}

// regression is what least squares needs of the differences explained by (level,
// lagged differences); the constant is taken out by centring every column.
type regression struct {
	gram        *mat.SymDense // columns with each other
	cross       *mat.VecDense // columns with the difference
	total       float64       // the difference with itself
	rows, terms int           // terms without the constant
}

// regress makes the regression with so many lagged differences.
func regress(series []float64, lag int) regression {
	rows, terms := len(series)-1-lag, 1+lag
	column := make([][]float64, terms)
	column[0] = centred(series[lag : lag+rows])
	difference := make([]float64, len(series)-1)
	for i := range difference {
		difference[i] = series[i+1] - series[i]
	}
	for k := 1; k <= lag; k++ {
		column[k] = centred(difference[lag-k : lag-k+rows])
	}
	explained := centred(difference[lag:])
	r := regression{mat.NewSymDense(terms, nil), mat.NewVecDense(terms, nil), floats.Dot(explained, explained), rows, terms}
	for i := range column {
		r.cross.SetVec(i, floats.Dot(column[i], explained))
		for j := range column[:i+1] {
			r.gram.SetSym(i, j, floats.Dot(column[i], column[j]))
		}
	}
	return r
}

func centred(values []float64) []float64 {
	mean := floats.Sum(values) / float64(len(values))
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = v - mean
	}
	return out
}

// bestLag minimises Akaike's criterion over 0…most differences, all on the rows
// of the longest. One factorisation serves all: what the first k columns explain
// is the sum of the first k squares of the solution of L·z = cross.
func bestLag(series []float64, most int) (int, error) {
	r := regress(series, most)
	var root mat.Cholesky
	if !root.Factorize(r.gram) {
		return 0, errSingular
	}
	var l mat.TriDense
	root.LTo(&l)
	z := mat.NewVecDense(r.terms, nil)
	left, best, least := r.total, 0, math.Inf(1)
	for k := range r.terms {
		sum := r.cross.AtVec(k)
		for i := range k {
			sum -= l.At(k, i) * z.AtVec(i)
		}
		z.SetVec(k, sum/l.At(k, k))
		left = max(left-z.AtVec(k)*z.AtVec(k), 0)
		criterion := float64(r.rows)*math.Log(left/float64(r.rows)) + 2*float64(k+2)
		if criterion < least {
			best, least = k, criterion
		}
	}
	return best, nil
}

// levelT is the t value of the level's coefficient.
func levelT(r regression) (float64, error) {
	var root mat.Cholesky
	if !root.Factorize(r.gram) {
		return 0, errSingular
	}
	var beta mat.VecDense
	var inverse mat.SymDense
	if err := errors.Join(root.SolveVecTo(&beta, r.cross), root.InverseTo(&inverse)); err != nil {
		return 0, errors.Join(errSingular, err)
	}
	left := max(r.total-mat.Dot(&beta, r.cross), 0)
	variance := left / float64(r.rows-r.terms-1)
	return beta.AtVec(0) / math.Sqrt(variance*inverse.At(0, 0)), nil
}

// mackinnonP is the asymptotic distribution of the statistic with a constant:
// the response surface of MacKinnon, Approximate Asymptotic Distribution
// Functions for Unit-Root and Cointegration Tests, JBES 12(2), 1994.
func mackinnonP(tau float64) float64 {
	switch {
	case tau > 2.74:
		return 1
	case tau < -18.83:
		return 0
	case tau <= -1.61:
		return distuv.UnitNormal.CDF(polynomial(tau, 2.1659, 1.4412, 0.038269))
	default:
		return distuv.UnitNormal.CDF(polynomial(tau, 1.7339, 0.93202, -0.12745, -0.010368))
	}
}
