package truth

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/cri"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLedger(t *testing.T) {
	l := NewLedger()
	l.NoteEmpty("a", 5) // its begin was not seen: it is not the workload that ended
	l.Note("a", Began, 10)
	l.Note("a", Began, 11)
	l.NoteEmpty("a", 20)
	l.NoteEmpty("a", 21)
	l.Note("a", Ended, 22)
	if got, want := l.Of("a"), (Times{Began: 10, Ended: 20}); got != want {
		t.Errorf("the times are %v, want %v", got, want)
	}
	if got := l.Of("b"); got != (Times{}) {
		t.Errorf("of another they are %v", got)
	}
	l.Clear()
	if got := l.Of("a"); got != (Times{}) {
		t.Errorf("after all was forgotten they are %v", got)
	}
}

func TestEnds(t *testing.T) {
	asked := 0
	e := &Ends{Ledger: NewLedger(), Every: time.Hour, Exited: func(context.Context, string) (bool, error) {
		asked++
		return asked == 2, nil
	}}
	done := make(chan error)
	go func() { done <- e.WaitExited(t.Context(), "a") }()
	e.Ledger.Note("a", Ended, 1) // the runtime does not show it yet
	e.Ledger.Note("a", ShownExited, 2)
	if err := <-done; err != nil || asked != 0 {
		t.Errorf("it asked %d times (%v)", asked, err)
	}
	if err := e.WaitExited(t.Context(), "a"); err != nil { // the end was earlier
		t.Error(err)
	}
	e.Every = time.Millisecond
	if err := e.WaitExited(t.Context(), "b"); err != nil || asked != 2 {
		t.Errorf("it asked %d times (%v)", asked, err)
	}
	e.Exited = func(context.Context, string) (bool, error) { return false, errors.New("gone") }
	if err := e.WaitExited(t.Context(), "c"); err == nil || err.Error() != "gone" {
		t.Errorf("the error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e.Every = time.Hour
	if err := e.WaitExited(ctx, "d"); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestAccount(t *testing.T) {
	var out bytes.Buffer
	a := NewAccount(&out)
	for range 100 {
		a.Note("x", embedded.Began)
	}
	a.Note("x", embedded.ShownExited)
	a.Note("y", "something new")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	l := NewLedger()
	if err := ReadAccount(&out, l); err != nil {
		t.Fatal(err)
	}
	got := l.Of("x")
	if got[Began] == 0 || got[ShownExited] < got[Began] || got[Ended] != 0 || l.Of("y") != (Times{}) {
		t.Errorf("the times are %v and %v", got, l.Of("y"))
	}
	if err := ReadAccount(strings.NewReader(`{"id":"x"`), l); err == nil {
		t.Error("an account that is cut off is fine")
	}
}

// TestEvents follows the stream of an embedded runtime, also when it breaks.
func TestEvents(t *testing.T) {
	rt := embedded.New(embedded.Options{Lag: embedded.NoLag()})
	defer rt.Close()
	server, err := embedded.Serve(t.Context(), rt, "")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	conn, err := cri.Dial(t.Context(), server.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	l := NewLedger()
	e := StartEvents(conn, l)
	defer e.Close()
	config := embedded.PodConfig("ns", "pod", "uid", 0, embedded.Burstable)
	sandbox, err := rt.RunPod(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	n := uint32(0)
	live := func() string {
		n++
		id, err := rt.Create(t.Context(), sandbox, embedded.ContainerConfig(config, "c", n, "i", "run"))
		if err == nil {
			err = errors.Join(rt.Start(t.Context(), id), rt.Exit(id, 0, ""), rt.Remove(t.Context(), id))
		}
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	// Whoever follows sees what comes from some moment on.
	seen := func(id string) bool {
		got := l.Of(id)
		return got[ShownCreated] != 0 && got[ShownRunning] >= got[ShownCreated] && got[ShownExited] >= got[ShownRunning] &&
			got[ShownRemoved] >= got[ShownExited] && got[Began] == 0
	}
	await(t, func() bool { return seen(live()) })
	if err := e.Works(t.Context(), time.Minute); err != nil || e.Breaks() != 0 {
		t.Errorf("%d breaks (%v)", e.Breaks(), err)
	}
	rt.Faults().Add(embedded.Fault{Method: "GetContainerEvents", Times: 1, Err: status.Error(codes.Unavailable, "broken")})
	await(t, func() bool { live(); return e.Breaks() > 0 })
	await(t, func() bool { return seen(live()) })
}

// TestNoEvents is about a runtime whose stream ends at once, or that has none.
func TestNoEvents(t *testing.T) {
	rt := embedded.New(embedded.Options{})
	defer rt.Close()
	rt.Faults().Add(embedded.Fault{Method: "GetContainerEvents", Err: status.Error(codes.Unimplemented, "no such thing")})
	server, err := embedded.Serve(t.Context(), rt, "")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	conn, err := cri.Dial(t.Context(), server.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	e := StartEvents(conn, NewLedger())
	defer e.Close()
	await(t, func() bool { return e.Breaks() > 0 })
	if err := e.Works(t.Context(), time.Millisecond); err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("the error is %v", err)
	}
}

func await(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatal("it never came")
		}
		<-tick.C
	}
}
