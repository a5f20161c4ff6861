package plan

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The kinds of arrivals.
const (
	NoArrivals = "none"
	Poisson    = "poisson"
	FixedRate  = "fixed"
	Burst      = "burst"
)

// Arrivals say when containers are started.
type Arrivals struct {
	Kind string
	// Rate is a second, of Poisson and FixedRate.
	Rate float64
	// Size containers at once, Every so often, with Burst.
	Size  int
	Every time.Duration
}

// None reports that nothing arrives.
func (a Arrivals) None() bool { return a.Kind == "" || a.Kind == NoArrivals }

// PerSecond is the mean rate.
func (a Arrivals) PerSecond() float64 {
	switch a.Kind {
	case Poisson, FixedRate:
		return a.Rate
	case Burst:
		return float64(a.Size) / a.Every.Seconds()
	default:
		return 0
	}
}

// ParseArrivals reads "none", "poisson 2/s", "fixed 30/m" or "burst 50 every 20s".
func ParseArrivals(s string) (Arrivals, error) {
	const forms = `give none, "poisson 2/s", "fixed 2/s" or "burst 50 every 20s"`
	words := strings.Fields(s)
	switch {
	case len(words) == 1 && words[0] == NoArrivals:
		return Arrivals{Kind: NoArrivals}, nil
	case len(words) == 2 && (words[0] == Poisson || words[0] == FixedRate):
		rate, err := parseRate(words[1])
		return Arrivals{Kind: words[0], Rate: rate}, err
	case len(words) == 4 && words[0] == Burst && words[2] == "every":
		size, err := strconv.Atoi(words[1])
		if err != nil {
			return Arrivals{}, fmt.Errorf("the size of a burst is %q, which is no whole number", words[1])
		}
		every, err := time.ParseDuration(words[3])
		switch {
		case err != nil:
			return Arrivals{}, fmt.Errorf("%q is no duration such as 20s", words[3])
		case size <= 0:
			return Arrivals{}, fmt.Errorf("a burst of %d containers: it must have at least one", size)
		case every <= 0:
			return Arrivals{}, fmt.Errorf("bursts every %s: the pause must be positive", every)
		}
		return Arrivals{Kind: Burst, Size: size, Every: every}, nil
	}
	return Arrivals{}, fmt.Errorf("don't understand the arrivals %q: %s", s, forms)
}

func parseRate(s string) (float64, error) {
	number, unit, ok := strings.Cut(s, "/")
	rate, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || unit != "s" && unit != "m" {
		return 0, fmt.Errorf("%q is no rate such as 2/s or 30/m", s)
	}
	if rate <= 0 || rate > 1e6 {
		return 0, fmt.Errorf("the rate is %s, and must be positive and sensible", s)
	}
	if unit == "m" {
		rate /= 60
	}
	return rate, nil
}

// String is what ParseArrivals reads.
func (a Arrivals) String() string {
	switch a.Kind {
	case Poisson, FixedRate:
		return a.Kind + " " + formatRate(a.Rate)
	case Burst:
		return fmt.Sprintf("burst %d every %s", a.Size, a.Every)
	default:
		return NoArrivals
	}
}

func formatRate(perSecond float64) string {
	s := strconv.FormatFloat(perSecond, 'g', -1, 64) + "/s"
	m := strconv.FormatFloat(perSecond*60, 'g', -1, 64) + "/m"
	if len(m) < len(s) {
		return m
	}
	return s
}

// The kinds of lifetimes.
const (
	Fixed       = "fixed"
	Uniform     = "uniform"
	Exponential = "exponential"
	FromFile    = "file"
)

// Lifetime says how long containers run.
type Lifetime struct {
	Kind string
	// Value is that of Fixed and the mean of Exponential.
	Value time.Duration
	// Min and Max are those of Uniform; Max, where it is given, also bounds Exponential.
	Min, Max time.Duration
	// File is where Observed was read from: lifetimes of which each is as likely.
	File     string
	Observed []time.Duration
}

// ParseLifetime reads "fixed 1s", "uniform 0s 50ms", "exponential 5s",
// "exponential 5s max 1m" or "file PATH". The file is read by [Lifetime.Load].
func ParseLifetime(s string) (Lifetime, error) {
	const forms = `give "fixed 1s", "uniform 0s 50ms", "exponential 5s", "exponential 5s max 1m" or "file PATH"`
	if path, ok := strings.CutPrefix(strings.TrimSpace(s), FromFile+" "); ok {
		return Lifetime{Kind: FromFile, File: strings.TrimSpace(path)}, nil
	}
	words := strings.Fields(s)
	var kind string
	var ds []time.Duration
	for i, w := range words {
		switch {
		case i == 0:
			kind = w
			continue
		case i == 2 && w == "max" && kind == Exponential:
			continue
		}
		d, err := time.ParseDuration(w)
		if err != nil {
			return Lifetime{}, fmt.Errorf("%q is no duration such as 50ms", w)
		}
		if d < 0 {
			return Lifetime{}, fmt.Errorf("the lifetime %s is negative", d)
		}
		ds = append(ds, d)
	}
	switch {
	case kind == Fixed && len(words) == 2:
		return Lifetime{Kind: Fixed, Value: ds[0]}, nil
	case kind == Uniform && len(words) == 3:
		if ds[1] < ds[0] {
			return Lifetime{}, fmt.Errorf("the shortest lifetime, %s, is longer than the longest, %s", ds[0], ds[1])
		}
		return Lifetime{Kind: Uniform, Min: ds[0], Max: ds[1]}, nil
	case kind == Exponential && len(words) == 2, kind == Exponential && len(words) == 4 && words[2] == "max":
		l := Lifetime{Kind: Exponential, Value: ds[0]}
		if l.Value == 0 {
			return l, errors.New("the mean lifetime is 0: use \"fixed 0s\"")
		}
		if len(ds) == 2 {
			if l.Max = ds[1]; l.Max < l.Value/10 {
				return l, fmt.Errorf("at most %s is too little for lifetimes of %s in the mean", l.Max, l.Value)
			}
		}
		return l, nil
	}
	return Lifetime{}, fmt.Errorf("don't understand the lifetime %q: %s", s, forms)
}

// String is what ParseLifetime reads.
func (l Lifetime) String() string {
	switch {
	case l.Kind == Uniform:
		return fmt.Sprintf("uniform %s %s", l.Min, l.Max)
	case l.Kind == FromFile:
		return "file " + l.File
	case l.Kind == Exponential && l.Max > 0:
		return fmt.Sprintf("exponential %s max %s", l.Value, l.Max)
	default:
		return fmt.Sprintf("%s %s", l.Kind, l.Value)
	}
}

// Mean is the mean lifetime, without heed to a bound.
func (l Lifetime) Mean() time.Duration {
	switch l.Kind {
	case Uniform:
		return (l.Min + l.Max) / 2
	case FromFile:
		sum := 0.0
		for _, d := range l.Observed {
			sum += float64(d) / float64(len(l.Observed))
		}
		return time.Duration(sum)
	default:
		return l.Value
	}
}

// Lag says how far the embedded runtime's CRI is behind the kernel that it plays.
// Each is uniform between two bounds.
type Lag struct {
	Start, Exit, Event [2]time.Duration
}

// RealisticLag resembles what was measured on containerd; see package embedded.
func RealisticLag() Lag {
	return Lag{
		Start: [2]time.Duration{time.Millisecond, 5 * time.Millisecond},
		Exit:  [2]time.Duration{5 * time.Millisecond, 40 * time.Millisecond},
		Event: [2]time.Duration{300 * time.Microsecond, 300 * time.Microsecond},
	}
}

// ParseLag reads "realistic", "none", or bounds for some of start, exit and event, as
// in "start 1ms-5ms, exit 30ms"; what is not named has no lag then.
func ParseLag(s string) (Lag, error) {
	switch strings.TrimSpace(s) {
	case "realistic":
		return RealisticLag(), nil
	case "none":
		return Lag{}, nil
	}
	var l Lag
	var seen []string
	for part := range strings.SplitSeq(s, ",") {
		words := strings.Fields(part)
		if len(words) != 2 {
			return l, fmt.Errorf(`don't understand the lag %q: give realistic, none, or "start 1ms-5ms, exit 5ms-40ms, event 1ms"`, s)
		}
		bounds, ok := map[string]*[2]time.Duration{"start": &l.Start, "exit": &l.Exit, "event": &l.Event}[words[0]]
		if !ok || slices.Contains(seen, words[0]) {
			return l, fmt.Errorf("a lag of %q: give each of start, exit and event once at most", words[0])
		}
		seen = append(seen, words[0])
		low, high, isRange := strings.Cut(words[1], "-")
		if !isRange {
			high = low
		}
		for i, w := range []string{low, high} {
			d, err := time.ParseDuration(w)
			if err != nil || d < 0 || d > time.Minute {
				return l, fmt.Errorf("the lag %q is no duration from 0 to 1m", words[1])
			}
			bounds[i] = d
		}
		if bounds[1] < bounds[0] {
			return l, fmt.Errorf("the lag %q ends before it begins", words[1])
		}
	}
	return l, nil
}

// String is what ParseLag reads.
func (l Lag) String() string {
	switch l {
	case RealisticLag():
		return "realistic"
	case Lag{}:
		return "none"
	}
	var parts []string
	for _, p := range []struct {
		name string
		lag  [2]time.Duration
	}{{"start", l.Start}, {"exit", l.Exit}, {"event", l.Event}} {
		if p.lag != [2]time.Duration{} {
			parts = append(parts, fmt.Sprintf("%s %s-%s", p.name, p.lag[0], p.lag[1]))
		}
	}
	return strings.Join(parts, ", ")
}
