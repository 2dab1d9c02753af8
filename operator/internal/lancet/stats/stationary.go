// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"errors"
	"fmt"
	"math"

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
	lag := bestLag(series, most)
	x, y := design(series, lag)
	t, err := levelT(x, y)
	if err != nil {
		return Stationarity{}, err
	}
	return Stationarity{Statistic: t, P: mackinnonP(t), Lags: lag, Observations: y.Len()}, nil
}

func constant(series []float64) bool {
	for _, v := range series {
		if v != series[0] {
			return false
		}
	}
	return true
}

// design is the regression of differences on (constant, level, lagged differences).
func design(series []float64, lag int) (x *mat.Dense, y *mat.VecDense) {
	rows := len(series) - 1 - lag
	x, y = mat.NewDense(rows, 2+lag, nil), mat.NewVecDense(rows, nil)
	for i := range rows {
		t := i + lag // series[t+1] − series[t] is explained
		y.SetVec(i, series[t+1]-series[t])
		x.Set(i, 0, 1)
		x.Set(i, 1, series[t])
		for k := 1; k <= lag; k++ {
			x.Set(i, 1+k, series[t-k+1]-series[t-k])
		}
	}
	return x, y
}

// bestLag minimises Akaike's criterion over 0…most differences, all on the rows
// of the longest. One factorisation serves all: the residual of the first k
// columns is what their orthogonal images leave of y.
func bestLag(series []float64, most int) int {
	x, y := design(series, most)
	rows, columns := x.Dims()
	var qr mat.QR
	qr.Factorize(x)
	var q mat.Dense
	qr.QTo(&q)
	left := mat.Dot(y, y)
	best, least := 0, math.Inf(1)
	for k := range columns {
		image := mat.Dot(q.ColView(k), y)
		left = max(left-image*image, 0)
		if k == 0 {
			continue // constant alone
		}
		criterion := float64(rows)*math.Log(left/float64(rows)) + 2*float64(k+1)
		if criterion < least {
			best, least = k-1, criterion
		}
	}
	return best
}

// levelT is the t value of the second coefficient of the least-squares fit.
func levelT(x *mat.Dense, y *mat.VecDense) (float64, error) {
	rows, columns := x.Dims()
	var qr mat.QR
	qr.Factorize(x)
	var beta mat.VecDense
	if err := qr.SolveVecTo(&beta, false, y); err != nil {
		return 0, fmt.Errorf("regression is singular (the series repeats itself too regularly): %w", err)
	}
	var fitted, residual mat.VecDense
	fitted.MulVec(x, &beta)
	residual.SubVec(y, &fitted)
	variance := mat.Dot(&residual, &residual) / float64(rows-columns)
	var gram, inverse mat.Dense
	gram.Mul(x.T(), x)
	if err := inverse.Inverse(&gram); err != nil {
		var condition mat.Condition
		if !errors.As(err, &condition) || math.IsInf(float64(condition), 1) {
			return 0, fmt.Errorf("regression is singular: %w", err)
		}
	}
	return beta.AtVec(1) / math.Sqrt(variance*inverse.At(1, 1)), nil
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
