package pleg

import (
	"testing"
	"time"
)

// TestBeforeRun asks a generator that has not met its runtime.
func TestBeforeRun(t *testing.T) {
	g, err := New(Options{Endpoint: "unix:///run/no-such-runtime.sock", Epoch: "e", RelistPeriod: 7 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if v := g.RuntimeVersion(); v != (RuntimeVersion{}) {
		t.Errorf("the runtime is %+v", v)
	}
	if p := g.RelistPeriod(); p != 7*time.Second {
		t.Errorf("the period is %s", p)
	}
	g.metrics.Period(2 * time.Second) // as the scheduler tells it
	if p := g.RelistPeriod(); p != 2*time.Second {
		t.Errorf("after a change, the period is %s", p)
	}
	if s := g.Stats(); s.Token.String() != "e-0" || s.OldestToken.String() != "e-0" {
		t.Errorf("%+v", s)
	}
}
