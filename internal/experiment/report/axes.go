package report

import (
	"math"
	"strings"

	"gonum.org/v1/plot"
)

// logAxis makes an axis logarithmic over at least the given range, with room for some
// labels.
func logAxis(a *plot.Axis, low, high float64, label func(float64) string, room int) {
	a.Min, a.Max = roundDown(low), roundUp(high)
	a.Scale = plot.LogScale{}
	a.Tick.Marker = logTicks(label, room)
}

// roundDown and roundUp go to the nearest of 1, 2 and 5 times a power of ten.
func roundDown(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{5, 2} {
		if v >= m*power*(1-1e-9) {
			return m * power
		}
	}
	return power
}

func roundUp(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*power*(1+1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// logTicks labels 1, 2 and 5 times the powers of ten where there is room for that, else
// the powers of ten or some of them; the other ticks have no label.
func logTicks(label func(float64) string, room int) plot.TickerFunc {
	return func(low, high float64) []plot.Tick {
		var ticks []plot.Tick
		decades := math.Log10(high / low)
		all := 3*decades+1 <= float64(room)+0.5
		every := max(1, int(math.Ceil((decades+1)/float64(room)-1e-9)))
		for e := int(math.Floor(math.Log10(low))); e <= int(math.Ceil(math.Log10(high))); e++ {
			for m := 1.0; m < 10; m++ {
				v := m * math.Pow10(e)
				if v < low*(1-1e-9) || v > high*(1+1e-9) {
					continue
				}
				t := plot.Tick{Value: min(max(v, low), high)}
				if m == 1 && e%every == 0 || all && (m == 1 || m == 2 || m == 5) {
					t.Label = label(v)
				}
				ticks = append(ticks, t)
			}
		}
		return ticks
	}
}

// tickTime writes round times without the zeros that figures have.
func tickTime(seconds float64) string {
	value, unit := scaled(seconds)
	return round(value) + " " + unit
}

// tickShare writes round shares.
func tickShare(v float64) string { return round(v*100) + " %" }

func tickCount(v float64) string { return round(v) }

func round(v float64) string {
	s := Digits(v)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// shareTicks are those of a linear axis of shares.
func shareTicks(low, high float64) []plot.Tick {
	step := 0.25
	for _, s := range []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25} {
		if (high-low)/s <= 5.5 {
			step = s
			break
		}
	}
	var ticks []plot.Tick
	for i := 0; float64(i)*step <= high*(1+1e-9); i++ {
		ticks = append(ticks, plot.Tick{Value: float64(i) * step, Label: tickShare(float64(i) * step)})
	}
	return ticks
}
