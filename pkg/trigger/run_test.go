package trigger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeSource runs what it is given for each run, the last one again and again.
type fakeSource struct {
	name SourceName
	runs []func(context.Context, Sink) error

	mu    sync.Mutex
	began []time.Time
}

func (s *fakeSource) Name() SourceName { return s.name }

func (s *fakeSource) Run(ctx context.Context, sink Sink) error {
	s.mu.Lock()
	n := len(s.began)
	s.began = append(s.began, time.Now())
	s.mu.Unlock()
	return s.runs[min(n, len(s.runs)-1)](ctx, sink)
}

func (s *fakeSource) gaps() (gaps []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 1; i < len(s.began); i++ {
		gaps = append(gaps, s.began[i].Sub(s.began[i-1]))
	}
	return gaps
}

func fails(err error) func(context.Context, Sink) error {
	return func(context.Context, Sink) error { return err }
}

func works(ctx context.Context, sink Sink) error {
	sink.Up()
	<-ctx.Done()
	return nil
}

// bench is a loop with fake sources, whose looks are recorded and end at once.
type bench struct {
	*Loop
	ctx  context.Context
	stop func()

	mu       sync.Mutex
	looks    []Look
	statuses []SourceStatus
	log      bytes.Buffer
}

func newBench(t *testing.T, look func(context.Context, Look) Looked, sources ...Source) *bench {
	b := &bench{}
	if look == nil {
		look = func(context.Context, Look) Looked { return Looked{At: time.Now()} }
	}
	b.Loop = NewLoop(LoopOptions{
		Sources: sources, View: nothing{},
		Log: slog.New(slog.NewTextHandler(&lockedWriter{b: b}, nil)),
		Look: func(ctx context.Context, l Look) Looked {
			b.mu.Lock()
			b.looks = append(b.looks, l)
			b.mu.Unlock()
			return look(ctx, l)
		},
		OnSource: func(st SourceStatus) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.statuses = append(b.statuses, st)
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	b.ctx = ctx
	var wg sync.WaitGroup
	wg.Go(func() { b.Run(ctx) })
	b.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(b.stop)
	return b
}

type lockedWriter struct{ b *bench }

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	return w.b.log.Write(p)
}

func (b *bench) logged(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.log.String(), text)
}

func (b *bench) looked(reason Reason, pod string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.looks {
		if l.Reason == reason && l.PodUID == pod {
			n++
		}
	}
	return n
}

// status is how the sources came up and went down.
func (b *bench) status() []SourceStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.statuses)
}

func (b *bench) last() SourceStatus {
	st := b.status()
	return st[len(st)-1]
}

// all are the looks so far.
func (b *bench) all() []Look {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.looks)
}

func (b *bench) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.String()
}

// after lets time pass in the bubble.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestLoopLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sink Sink
		src := &fakeSource{name: SourceCRI, runs: []func(context.Context, Sink) error{
			func(ctx context.Context, s Sink) error { sink = s; return works(ctx, s) },
		}}
		b := newBench(t, nil, src)
		after(2 * time.Second)
		if b.looked(ReasonStartup, "") != 1 || b.looked(ReasonSourceUp, "") != 2 {
			t.Errorf("after the start: looks %v", b.all())
		}
		sink.Signal(Signal{Source: SourceCRI, Kind: KindChanged, PodUID: "p"})
		b.Request("q", true)
		synctest.Wait()
		if b.looked(ReasonSignal, "p") != 1 || b.looked(ReasonRequest, "q") != 1 {
			t.Errorf("after a signal and a request: looks %v", b.all())
		}
		after(30 * time.Second)
		if n := b.looked(ReasonPeriodic, ""); n != 3 {
			t.Errorf("%d periodic looks in 30 seconds", n)
		}
	})
}

func TestSourcesFailAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := &fakeSource{name: SourceCgroup, runs: []func(context.Context, Sink) error{fails(errors.New("no watches left"))}}
		never := &fakeSource{name: SourceEBPF, runs: []func(context.Context, Sink) error{fails(fmt.Errorf("%w: no BTF", ErrUnsupported))}}
		good := &fakeSource{name: SourceCRI, runs: []func(context.Context, Sink) error{works}}
		b := newBench(t, nil, broken, never, good)
		after(10 * time.Minute)

		gaps := broken.gaps()
		want := []time.Duration{200e6, 400e6, 800e6, 1600e6, 3200e6, 6400e6, 12800e6, 25600e6, 30e9, 30e9}
		for i, d := range want {
			if gaps[i] != d {
				t.Fatalf("tried again after %v, not %v", gaps, want)
			}
		}
		for _, d := range never.gaps() {
			if d != retryUnsupported {
				t.Errorf("what is not supported is tried again after %v", d)
			}
		}
		if n := len(good.gaps()); n != 0 {
			t.Errorf("the one that works was run %d times more", n)
		}
		if b.logged("no watches left") != 1 || b.logged("no BTF") != 1 || b.logged("trigger source works") != 1 {
			t.Errorf("log:\n%s", b.text())
		}
		state := make(map[SourceName]SourceStatus)
		for _, st := range b.status() {
			state[st.Name] = st
		}
		if !state[SourceCRI].Up || state[SourceCgroup].Up || state[SourceEBPF].Err == nil {
			t.Errorf("states %v", state)
		}
		if n := b.looked(ReasonPeriodic, ""); n < 500 {
			t.Errorf("only %d periodic looks in ten minutes with sources down", n)
		}
	})
}

func TestReasonsAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		flapping := &fakeSource{name: SourceCRI, runs: []func(context.Context, Sink) error{
			func(ctx context.Context, sink Sink) error {
				sink.Up()
				<-time.After(5 * time.Second)
				n++
				return []error{errors.New("stream: reset"), errors.New("stream: EOF")}[n%2]
			},
		}}
		numbered := &fakeSource{name: SourceCgroup, runs: []func(context.Context, Sink) error{
			func(context.Context, Sink) error { return fmt.Errorf("number %d", time.Now().UnixNano()) },
		}}
		silent := &fakeSource{name: SourceEBPF, runs: []func(context.Context, Sink) error{fails(nil)}}
		b := newBench(t, nil, flapping, numbered, silent)
		after(time.Hour)
		for text, most := range map[string]int{
			"stream: reset": 1, "stream: EOF": 1, "number ": maxReasons, "without saying why": 1, "trigger source works": 3,
		} {
			if n := b.logged(text); n < 1 || n > most {
				t.Errorf("%q was logged %d times", text, n)
			}
		}
	})
}

func TestSourceThatWorkedIsTriedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := func(ctx context.Context, sink Sink) error {
			sink.Up()
			<-time.After(2 * time.Minute)
			return errors.New("stream: reset")
		}
		src := &fakeSource{name: SourceCRI, runs: []func(context.Context, Sink) error{long}}
		b := newBench(t, nil, src)
		after(20 * time.Minute)
		for _, d := range src.gaps() {
			if d != 2*time.Minute+retryFirst {
				t.Errorf("run again %v after it began", d)
			}
		}
		if n := b.logged("stream: reset"); n < 5 {
			t.Errorf("told %d times that it went down after minutes", n)
		}
	})
}

func TestSourcePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := &fakeSource{name: SourceCgroup, runs: []func(context.Context, Sink) error{
			func(_ context.Context, sink Sink) error { sink.Up(); panic("index out of range") }, works,
		}}
		b := newBench(t, nil, bad)
		after(retryUnsupported - time.Second)
		if b.logged("trigger source panicked") != 1 || b.logged("goroutine") == 0 {
			t.Errorf("log:\n%s", b.text())
		}
		if last := b.last(); last.Up || last.Err == nil {
			t.Errorf("status %v", last)
		}
		after(2 * time.Second)
		if last := b.last(); !last.Up {
			t.Errorf("not tried again: %v", last)
		}
	})
}

// TestSinkAfterEnd has a source speak after its end and say twice that it works,
// for which everything is looked at twice.
func TestSinkAfterEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var old Sink
		src := &fakeSource{name: SourceCRI, runs: []func(context.Context, Sink) error{
			func(_ context.Context, sink Sink) error { old = sink; sink.Up(); sink.Up(); return ErrUnsupported },
		}}
		b := newBench(t, nil, src)
		after(2 * time.Second)
		old.Up()
		old.Signal(Signal{Source: SourceCRI, Kind: KindChanged, PodUID: "p"})
		after(2 * time.Second)
		if n := b.looked(ReasonSignal, "p"); n != 0 {
			t.Errorf("%d looks for what it said after its end", n)
		}
		ups := 0
		for _, st := range b.status() {
			if st.Up {
				ups++
			}
		}
		if ups != 1 || b.looked(ReasonSourceUp, "") != 2 {
			t.Errorf("came up %d times, with %d looks", ups, b.looked(ReasonSourceUp, ""))
		}
	})
}

// TestRunEnds ends a loop while sources and looks are under way.
func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context, _ Look) Looked { <-ctx.Done(); return Looked{Err: ctx.Err()} }
		b := newBench(t, hang,
			&fakeSource{name: SourceCRI, runs: []func(context.Context, Sink) error{works}},
			&fakeSource{name: SourceEBPF, runs: []func(context.Context, Sink) error{fails(ErrUnsupported)}})
		after(time.Minute)
		if n := len(b.all()); n != 1 {
			t.Errorf("%d looks while the first one hangs", n)
		}
		b.stop() // and the bubble checks that nothing is left
	})
}

// TestStuckLoop holds the loop up: nothing that sources and callers do may wait.
func TestStuckLoop(t *testing.T) {
	stuck, entered := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var lost, signals int
	l := NewLoop(LoopOptions{
		View: nothing{},
		Look: func(context.Context, Look) Looked { return Looked{At: time.Now()} },
		Scheduler: SchedulerOptions{Observer: observeSignal(func(sig Signal) {
			once.Do(func() { close(entered); <-stuck })
			signals++
			if sig.Kind == KindLost {
				lost++
			}
		})},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { l.Run(ctx) })
	sink := &turn{v: &supervisor{
		source: &fakeSource{name: SourceCRI}, box: l.box, report: func(SourceStatus) {}, log: l.opts.Log,
	}}
	sink.Signal(Signal{Source: SourceCRI, Kind: KindChanged, PodUID: "p"})
	<-entered
	for i := range 3 * mailboxSize {
		sink.Signal(Signal{Source: SourceCRI, Kind: KindChanged, PodUID: "p"})
		l.Request(fmt.Sprint(i), true)
	}
	for i := range 1000 {
		l.box.state(SourceCRI, i%2 == 0)
	}
	mail := &l.box.mail
	if len(mail.signals) != mailboxSize+1 || len(mail.requests) > mailboxRequests+1 || len(mail.states[SourceCRI]) != 2 {
		t.Errorf("the mailbox holds %d signals, %d requests, %d states", len(mail.signals), len(mail.requests), len(mail.states[SourceCRI]))
	}
	if _, all := mail.requests[""]; !all {
		t.Error("too many requests do not come down to a look at everything")
	}
	if s := mail.states[SourceCRI]; !s[0] || s[1] {
		t.Errorf("states %v", s)
	}
	close(stuck)
	l.Request("end", false)
	cancel()
	wg.Wait()
	if lost > 1 || signals > mailboxSize+2 {
		t.Errorf("%d signals, %d times lost", signals, lost)
	}
}

func TestMailboxTellsLostOnce(t *testing.T) {
	m := newMailbox()
	for range 2 {
		for range 2 * mailboxSize {
			m.signal(Signal{Source: SourceEBPF, Kind: KindExited})
		}
		lost := 0
		for _, sig := range m.collect().signals {
			if sig.Kind == KindLost && sig.Source == SourceEBPF {
				lost++
			}
		}
		if lost != 1 {
			t.Errorf("told %d times that signals were lost", lost)
		}
	}
}
