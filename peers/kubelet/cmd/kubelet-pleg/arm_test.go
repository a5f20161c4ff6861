package main

import (
	"os"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/arm"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/clock"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/plan"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime/runtimetest"
)

// TestAsAnArm has an experiment run the program, and find out how often it calls the
// runtime.
func TestAsAnArm(t *testing.T) {
	rt := runtimetest.Start(t, testruntime.Options{})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asProgram, "1")
	p := &plan.Arm{Name: "kubelet", Kind: plan.KubeletEvented, Period: 20 * time.Millisecond}
	a, err := arm.Start(p, arm.Command(p, arm.Programs{Kubelet: self}, arm.Target{Endpoint: rt.Endpoint()}), clock.NewWall())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Stop()
	if notes, err := a.Ready(t.Context()); err != nil || len(notes) > 0 {
		t.Fatalf("it is not ready: %v, %v", notes, err)
	}
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		u, err := a.End(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if u.Calls["ListPodSandbox"] >= 3 && u.Calls["ListContainers"] >= 3 && u.Calls["Version"] > 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("its calls are %v", u.Calls)
		}
	}
}
