package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/stats"
)

// Figures and their units are kept on one line.
const nbsp = "\u00a0"

// Duration writes seconds with three digits and a unit that fits.
func Duration(seconds float64) string {
	value, unit := scaled(seconds)
	return Digits(value) + nbsp + unit
}

func scaled(seconds float64) (value float64, unit string) {
	switch s := math.Abs(seconds); {
	case s >= 0.9995 || s == 0:
		return seconds, "s"
	case s >= 0.9995e-3:
		return seconds * 1e3, "ms"
	default:
		return seconds * 1e6, "µs"
	}
}

// Digits writes v with three significant digits, without an exponent.
func Digits(v float64) string {
	if v == 0 {
		return "0"
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	if decimals <= 0 {
		return count(int(math.Round(v)))
	}
	s := strconv.FormatFloat(v, 'f', min(decimals, 6), 64)
	// 9.996 has become 10.00.
	if len(strings.TrimLeft(strings.Replace(s, ".", "", 1), "-0")) > 3 && decimals > 1 {
		s = s[:len(s)-1]
	}
	return s
}

// count writes n with commas between the thousands.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Share writes a share as a percentage.
func Share(v float64) string {
	p := v * 100
	switch {
	case p == 0 || p == 100:
		return strconv.Itoa(int(p)) + nbsp + "%"
	case p < 0.001:
		return "<" + nbsp + "0.001" + nbsp + "%"
	// Never 100 % of what is less.
	case p > 99.9:
		return strconv.FormatFloat(math.Floor(p*100)/100, 'f', 2, 64) + nbsp + "%"
	case p < 10:
		return Digits(p) + nbsp + "%"
	default:
		return strconv.FormatFloat(p, 'f', 1, 64) + nbsp + "%"
	}
}

// Span writes an interval of times in one unit.
func Span(i *stats.Interval) string {
	if i == nil {
		return "too few for an interval"
	}
	largest := max(math.Abs(i.Low), math.Abs(i.High))
	_, unit := scaled(largest)
	factor := map[string]float64{"s": 1, "ms": 1e3, "µs": 1e6}[unit]
	return Digits(i.Low*factor) + " to " + Digits(i.High*factor) + nbsp + unit
}

func shares(i stats.Interval) string {
	return strings.TrimSuffix(Share(i.Low), nbsp+"%") + " to " + Share(i.High)
}

// signed writes a difference with its sign.
func signed(seconds float64) string {
	if seconds > 0 {
		return "+" + Duration(seconds)
	}
	return strings.Replace(Duration(seconds), "-", "−", 1)
}

// Mebibytes writes a size of memory.
func Mebibytes(bytes int64) string {
	return Digits(float64(bytes)/(1<<20)) + nbsp + "MiB"
}

// describe says in a few words what an arm looks at and how often.
func describe(a result.Arm) string {
	parts := []string{a.Kind}
	if len(a.Triggers) > 0 {
		parts = append(parts, strings.Join(a.Triggers, "+"))
	} else if a.Kind == result.Hybrid {
		parts = append(parts, "no trigger")
	}
	if a.Period > 0 {
		parts = append(parts, "period "+short(a.Period))
	}
	return strings.Join(parts, ", ")
}

// short writes a duration without the zero parts that String has.
func short(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// plural writes n and a noun.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%s %s", count(n), many)
}

// list writes words as in a sentence.
func list(words []string) string {
	switch len(words) {
	case 0:
		return ""
	case 1:
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
