package trigger

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
)

// TestScripts steps a scheduler through the scripts in testdata/scheduler. A script
// has a line a step: the time, what happens or must have happened, and arguments.
//
//	options sources=ebpf,cri above=4 rate=100 burst=100 period=10s degraded=1s
//	0ms   up ebpf                            or down
//	1ms   signal ebpf exited p1 c1           pod or container - if not told; "foreign" at the end
//	1ms   request p1 reinspect               pod - for all
//	2ms   now p1 c1 running                  what a listing would show from now on; gone: no more
//	3ms   look p1 signal                     the look decided on at that time; pod - for all; "reinspect"
//	4ms   done p1 took=1ms                   the look under way ends well; "failed" or "away": it fails
//	4ms   hint p1 c1 ebpf                    what the last look puts a change down to; - for nothing
//	4ms   outcome ebpf exited settled 1      what the observer was told next
//	4ms   missed c1
//	4ms   unannounced 1
//	4ms   period 1s                          the period in force
//	9s    idle                               until then nothing was decided on
//	9s    answer                             from now on looks end well at once, out of the script
//	9s    answered 9                         until now, and so many did
//
// Looks are decided on at the time given or up to 0.05 ms before or after it.
// A listing shows what was true when the look was decided on. Every look and
// everything told to the observer must be in the script; signals are not told.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/scheduler/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			runScript(t, string(text))
		})
	}
}

type script struct {
	NopObserver
	t     *testing.T
	line  int
	start time.Time
	now   time.Time
	s     *Scheduler

	truth, known map[string]item
	seen         map[string]bool

	period  time.Duration
	decided []decided // and not yet in the script
	flying  []decided
	last    Look
	told    []string

	answering bool
	answered  int
}

type decided struct {
	Look
	at    time.Time
	shown map[string]item
}

func runScript(t *testing.T, text string) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	sc := &script{
		t: t, start: start, now: start,
		truth: make(map[string]item), known: make(map[string]item), seen: make(map[string]bool),
	}
	opts := SchedulerOptions{Observer: sc}
	for i, line := range strings.Split(text, "\n") {
		sc.line = i + 1
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case f[0] == "options":
			for _, o := range f[1:] {
				k, v, _ := strings.Cut(o, "=")
				switch k {
				case "sources":
					for name := range strings.SplitSeq(v, ",") {
						opts.Sources = append(opts.Sources, SourceName(name))
					}
				case "above":
					opts.GlobalAbove = sc.number(v)
				case "rate":
					opts.Rate = float64(sc.number(v))
				case "burst":
					opts.Burst = float64(sc.number(v))
				case "period":
					opts.Period = sc.duration(v)
				case "degraded":
					opts.PeriodDegraded = sc.duration(v)
				default:
					sc.fail("no such option: %s", k)
				}
			}
		default:
			if sc.s == nil {
				sc.s = NewScheduler(opts, sc, start)
			}
			sc.advance(start.Add(sc.duration(f[0])))
			sc.step(f[1], f[2:])
		}
	}
	if len(sc.decided) > 0 || len(sc.told) > 0 {
		sc.fail("not in the script: looks %v, told %q", sc.looks(), sc.told)
	}
}

func (sc *script) fail(format string, args ...any) {
	sc.t.Helper()
	sc.t.Fatalf("line %d: %s", sc.line, fmt.Sprintf(format, args...))
}

func (sc *script) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		sc.fail("%v", err)
	}
	return d
}

func (sc *script) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		sc.fail("%v", err)
	}
	return n
}

func (sc *script) looks() (out []string) {
	for _, d := range sc.decided {
		out = append(out, fmt.Sprintf("%v %s %s reinspect=%t", d.at.Sub(sc.start), cmp.Or(d.PodUID, "-"), d.Reason, d.Reinspect))
	}
	return out
}

// advance lets time pass. What falls on the same time as a step happens before it.
func (sc *script) advance(to time.Time) {
	for {
		wake := sc.decide()
		if wake.After(to) {
			break
		}
		sc.now = wake
	}
	sc.now = later(sc.now, to)
	sc.decide()
}

func (sc *script) decide() time.Time {
	for {
		looks, wake := sc.s.Next(sc.now)
		if len(looks) == 0 {
			if !wake.After(sc.now) {
				sc.fail("the loop would spin at %v", sc.now.Sub(sc.start))
			}
			return wake
		}
		for _, l := range looks {
			sc.last = l
			d := decided{l, sc.now, maps.Clone(sc.truth)}
			if sc.answering {
				sc.answered++
				sc.s.Done(Looked{
					Look: l, At: sc.now, Took: time.Millisecond,
					Found: apply(sc.known, sc.seen, d.shown, l.PodUID),
				}, sc.now)
				continue
			}
			sc.decided, sc.flying = append(sc.decided, d), append(sc.flying, d)
		}
	}
}

func (sc *script) step(verb string, args []string) {
	arg := func(i int) string {
		if i < len(args) && args[i] != "-" {
			return args[i]
		}
		return ""
	}
	if (verb == "signal" || verb == "request" || verb == "up") && len(sc.decided) > 0 {
		sc.fail("not in the script: looks %v", sc.looks())
	}
	switch verb {
	case "up", "down":
		sc.s.SourceState(SourceName(arg(0)), verb == "up", sc.now)
	case "signal":
		sc.s.Signal(Signal{
			Source: SourceName(arg(0)), Kind: Kind(arg(1)), PodUID: arg(2), ContainerID: arg(3),
			Foreign: arg(4) == "foreign", At: sc.now,
		}, sc.now)
	case "request":
		sc.s.Request(arg(0), arg(1) == "reinspect", sc.now)
	case "now":
		if arg(2) == "gone" {
			delete(sc.truth, arg(1))
		} else {
			sc.truth[arg(1)] = item{event.State(arg(2)), arg(0)}
		}
	case "look":
		written := sc.now
		if len(sc.decided) == 0 {
			sc.advance(written.Add(50 * time.Microsecond))
		}
		if len(sc.decided) == 0 {
			sc.fail("no look was decided on")
		}
		d := sc.decided[0]
		sc.decided = sc.decided[1:]
		want := fmt.Sprintf("%s %s reinspect=%t at %v", arg(0), arg(1), arg(2) == "reinspect", written.Sub(sc.start))
		got := fmt.Sprintf("%s %s reinspect=%t at %v", d.PodUID, d.Reason, d.Reinspect, d.at.Sub(sc.start).Round(100*time.Microsecond))
		if got != want {
			sc.fail("look %s, not %s", got, want)
		}
	case "done":
		sc.done(arg(0), args[1:])
	case "answer":
		sc.answering, sc.answered = true, 0
	case "answered":
		if sc.answering = false; sc.answered != sc.number(arg(0)) {
			sc.fail("%d looks", sc.answered)
		}
	case "hint":
		h, _ := sc.last.Hint(arg(0), arg(1))
		if string(h.Source) != arg(2) {
			sc.fail("put down to %q", h.Source)
		}
	case "outcome", "missed", "unannounced":
		want := strings.Join(append([]string{verb}, args...), " ")
		if len(sc.told) == 0 || sc.told[0] != want {
			sc.fail("told %q", sc.told)
		}
		sc.told = sc.told[1:]
	case "period":
		if want := sc.duration(arg(0)); sc.period != want {
			sc.fail("the period is %v", sc.period)
		}
	case "idle":
		if len(sc.decided) > 0 {
			sc.fail("not idle: looks %v", sc.looks())
		}
	default:
		sc.fail("no such step: %s", verb)
	}
	sc.decide()
}

func (sc *script) done(uid string, args []string) {
	i := slices.IndexFunc(sc.flying, func(d decided) bool { return d.PodUID == uid })
	if i < 0 {
		sc.fail("no such look is under way")
	}
	d := sc.flying[i]
	sc.flying = slices.Delete(sc.flying, i, i+1)
	res := Looked{Look: d.Look, At: d.at, Took: time.Millisecond}
	for _, a := range args {
		switch {
		case a == "failed":
			res.Err = errors.New("failed")
		case a == "away":
			res.Err, res.Unavailable = errors.New("away"), true
		case strings.HasPrefix(a, "took="):
			res.Took = sc.duration(strings.TrimPrefix(a, "took="))
		default:
			sc.fail("no such argument: %s", a)
		}
	}
	if res.Err == nil {
		res.Found = apply(sc.known, sc.seen, d.shown, uid)
	}
	sc.s.Done(res, sc.now)
}

// apply brings records up to what a listing showed.
func apply(known map[string]item, seen map[string]bool, shown map[string]item, uid string) (found []Found) {
	for id, it := range known {
		if _, ok := shown[id]; !ok && (uid == "" || it.pod == uid) {
			delete(known, id)
			found = append(found, Found{id, event.StateNonExistent})
		}
	}
	for id, it := range shown {
		if (uid == "" || it.pod == uid) && known[id] != it {
			known[id], seen[id] = it, true
			found = append(found, Found{id, it.state})
		}
	}
	return found
}

func (sc *script) State(id string) event.State {
	return cmp.Or(sc.known[id].state, event.StateNonExistent)
}
func (sc *script) Seen(id string) bool    { return sc.seen[id] }
func (sc *script) PodOf(id string) string { return sc.known[id].pod }
func (sc *script) HasPod(uid string) bool {
	for _, it := range sc.known {
		if it.pod == uid {
			return true
		}
	}
	return false
}

func (sc *script) Settled(source SourceName, kind Kind, outcome Outcome, _ time.Duration, looks int) {
	sc.told = append(sc.told, fmt.Sprintf("outcome %s %s %s %d", source, kind, outcome, looks))
}
func (sc *script) Missed(id string)       { sc.told = append(sc.told, "missed "+id) }
func (sc *script) Unannounced(n int)      { sc.told = append(sc.told, fmt.Sprintf("unannounced %d", n)) }
func (sc *script) Period(d time.Duration) { sc.period = d }
