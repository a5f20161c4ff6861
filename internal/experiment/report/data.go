package report

import (
	"slices"
	"strings"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/result"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/stats"
)

// Data are the transitions of one workload, ready for statistics. The comparison of
// two runs uses it as the summary does.
type Data struct {
	Workload    string
	Transitions []result.Transition
	Phases      []result.Phase
	blocks      map[blockKey]blocking
}

// blocking is which block each transition of the workload is in.
type blocking struct {
	block []int
	n     int
}

type blockKey struct {
	arms   string
	length int64
}

// Split sorts the transitions of an experiment by workload, in the order of the
// phases.
func Split(e result.Experiment) []*Data {
	var all []*Data
	find := func(name string) *Data {
		for _, d := range all {
			if d.Workload == name {
				return d
			}
		}
		return nil
	}
	for _, p := range e.Run.Phases {
		d := find(p.Name)
		if d == nil {
			d = &Data{Workload: p.Name, blocks: map[blockKey]blocking{}}
			all = append(all, d)
		}
		d.Phases = append(d.Phases, p)
	}
	for _, t := range e.Transitions {
		d := find(t.Phase)
		d.Transitions = append(d.Transitions, t)
	}
	return all
}

// firstSeen returns a moment that stands for the transition, however little of it was
// observed.
func firstSeen(t *result.Transition) int64 {
	for _, at := range []int64{t.Kernel, t.Visible, t.Asked} {
		if at != 0 {
			return at
		}
	}
	first := int64(0)
	for _, told := range t.Told {
		if first == 0 || told.At < first {
			first = told.At
		}
	}
	return first
}

// blocksFor cuts what the arms had the chance to tell into blocks that are as long as
// correlation at least. What one of them had no chance to tell is in block 0.
func (d *Data) blocksFor(correlation time.Duration, arms ...string) blocking {
	var which, repeat []int
	var at []int64
	span := map[int][2]int64{}
	for i := range d.Transitions {
		t := &d.Transitions[i]
		if slices.ContainsFunc(arms, func(arm string) bool { return !slices.Contains(t.Arms, arm) }) {
			continue
		}
		seen := firstSeen(t)
		which, at, repeat = append(which, i), append(at, seen), append(repeat, t.Repeat)
		s, ok := span[t.Repeat]
		if !ok {
			s = [2]int64{seen, seen}
		}
		span[t.Repeat] = [2]int64{min(s[0], seen), max(s[1], seen)}
	}
	total := int64(0)
	for _, s := range span {
		total += s[1] - s[0]
	}
	key := blockKey{strings.Join(arms, "\x00"), stats.BlockLength(total, int64(correlation))}
	if b, ok := d.blocks[key]; ok {
		return b
	}
	block, n := stats.Blocks(at, repeat, key.length)
	b := blocking{block: make([]int, len(d.Transitions)), n: n}
	for i, of := range which {
		b.block[of] = block[i]
	}
	d.blocks[key] = b
	return b
}

// moment returns when t happened as seen from one of the three sources, 0 if that was not
// observed.
func moment(t *result.Transition, from string) int64 {
	switch from {
	case FromKernel:
		return t.Kernel
	case FromVisible:
		return t.Visible
	default:
		return t.Asked
	}
}

// latency returns how long after the moment the arm told t, in seconds. It is not ok
// if the moment was not observed, or if the arm had no chance to tell t, did not tell it,
// or told it before that moment of the kernel's.
func latency(t *result.Transition, arm, from string) (seconds float64, ok bool) {
	told, ok := t.Told[arm]
	at := moment(t, from)
	if !ok || at == 0 || premature(t, arm) || from == FromKernel && told.At < at {
		return 0, false
	}
	return seconds64(told.At - at), true
}

// premature reports whether the arm told of an end that was still to come. To tell of a
// start early is no fault: a runtime may call a container running a moment before its
// program is executed.
func premature(t *result.Transition, arm string) bool {
	told, ok := t.Told[arm]
	return ok && t.Kind == result.Exit && t.Kernel != 0 && told.At < t.Kernel
}

func seconds64(ns int64) float64 { return float64(ns) / 1e9 }

// Latencies returns the arm's latencies of one kind of transition as a sample whose
// blocks are at least as long as correlation.
func (d *Data) Latencies(arm, kind, from string, correlation time.Duration) stats.Sample {
	return d.sample(arm, kind, from, d.blocksFor(correlation, arm), func(*result.Transition) bool { return true })
}

func (d *Data) sample(arm, kind, from string, b blocking, keep func(*result.Transition) bool) stats.Sample {
	var values []float64
	var block []int
	for i := range d.Transitions {
		t := &d.Transitions[i]
		if t.Kind != kind || !keep(t) {
			continue
		}
		if v, ok := latency(t, arm, from); ok {
			values = append(values, v)
			block = append(block, b.block[i])
		}
	}
	return stats.NewSample(values, block, b.n)
}

// Missed returns how many transitions of a kind the arm had the chance to tell, and how
// many of them it did not.
func (d *Data) Missed(arm, kind string) (missed, of int) {
	for i := range d.Transitions {
		t := &d.Transitions[i]
		if t.Kind != kind || !slices.Contains(t.Arms, arm) {
			continue
		}
		of++
		if _, ok := t.Told[arm]; !ok {
			missed++
		}
	}
	return missed, of
}

// Periodic tells whether an arm has nothing but a period, which theory then applies
// to.
func Periodic(a result.Arm) bool {
	switch a.Kind {
	case result.Hybrid:
		return a.Period > 0 && (len(a.Triggers) == 0 || slices.Equal(a.Triggers, []string{"none"}))
	case result.KubeletGeneric, result.CRIPoll:
		return a.Period > 0
	default:
		return false
	}
}

// Correlation returns for how long what an arm tells is not independent: the period
// of one that has nothing else.
func Correlation(a result.Arm) time.Duration {
	if Periodic(a) {
		return a.Period
	}
	return 0
}
