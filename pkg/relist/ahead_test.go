package relist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// expecting relists a pod of which changes of containers were announced.
func (b *bench) expecting(uid string, ids ...string) {
	b.Helper()
	if res := b.engine.Relist(b.Context(), Request{PodUID: uid, Expect: ids}); res.Err != nil {
		b.Fatal(res.Err)
	}
	synctest.Wait()
}

// TestReadAhead checks that details that were asked for together with the list are
// used, and only where they are good enough.
func TestReadAhead(t *testing.T) {
	codes := func(b *bench) (codes []int32) {
		for _, c := range b.told {
			if c.Type == event.ContainerDied && c.Status != nil && c.Status.ExitCode != nil {
				codes = append(codes, *c.Status.ExitCode)
			}
		}
		b.told = nil
		return codes
	}
	setup := func(b *bench) {
		b.pod("p")
		b.set("p", "c", isRunning)
		b.relist("")
		b.told, b.reads = nil, 0
	}
	t.Run("used", func(t *testing.T) {
		onBench(t, Options{}, func(b *bench) {
			setup(b)
			b.set("p", "c", isExited)
			b.expecting("p", "c")
			if got := codes(b); !slices.Equal(got, []int32{3}) || b.reads != 1 {
				b.Errorf("exit codes %v with %d reads, want one of each", got, b.reads)
			}
		})
	})
	t.Run("older than the list", func(t *testing.T) {
		onBench(t, Options{}, func(b *bench) {
			setup(b)
			// The status is read before, the list after the container's end.
			var once sync.Once
			b.onList = func(context.Context) error {
				time.Sleep(time.Millisecond)
				once.Do(func() { b.set("p", "c", isExited) })
				return nil
			}
			b.slowContainers = 2 * time.Millisecond
			b.expecting("p", "c")
			if got := codes(b); !slices.Equal(got, []int32{3}) || b.reads != 2 {
				b.Errorf("exit codes %v with %d reads, want one and two", got, b.reads)
			}
		})
	})
	t.Run("failed", func(t *testing.T) {
		onBench(t, Options{}, func(b *bench) {
			setup(b)
			b.set("p", "c", isExited)
			failed := false
			b.onStatus = func(context.Context, string) error {
				if !failed {
					failed = true
					return errors.New("not now")
				}
				return nil
			}
			b.expecting("p", "c")
			if got := codes(b); !slices.Equal(got, []int32{3}) {
				b.Errorf("exit codes %v", got)
			}
		})
	})
	t.Run("not wanted", func(t *testing.T) {
		onBench(t, Options{}, func(b *bench) {
			setup(b)
			release := b.hang("c")
			defer release()
			b.expecting("p", "c", "stranger", "sandbox-p")
			b.want()
			if b.reads != 1 || b.reading != 0 {
				b.Errorf("%d reads, %d of them going on; want one that was ended", b.reads, b.reading)
			}
		})
	})
	t.Run("hangs", func(t *testing.T) {
		onBench(t, Options{StatusDeadline: time.Second}, func(b *bench) {
			setup(b)
			b.set("p", "c", isExited)
			release := b.hang("c")
			b.expecting("p", "c")
			b.pass(time.Second)
			if len(b.told) != 1 || b.told[0].StatusMissing != event.StatusLate {
				b.Fatalf("told %v", b.take())
			}
			b.told = nil
			release()
			synctest.Wait()
			if len(b.told) != 1 || b.told[0].Type != event.PodSync || b.told[0].Status == nil {
				b.Errorf("told %v", b.take())
			}
		})
	})
	t.Run("relist fails", func(t *testing.T) {
		onBench(t, Options{}, func(b *bench) {
			setup(b)
			release := b.hang("c")
			defer release()
			b.onList = func(context.Context) error { return errors.New("no list") }
			if res := b.engine.Relist(b.Context(), Request{PodUID: "p", Expect: []string{"c"}}); res.Err == nil {
				b.Error("the relist did not fail")
			}
			synctest.Wait()
			if b.reading != 0 {
				b.Error("the read goes on")
			}
		})
	})
}

// TestListedAtOnce checks that listing a pod's containers beside its sandboxes
// never shows a sandbox's end before its containers'.
func TestListedAtOnce(t *testing.T) {
	notReady := runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	for _, c := range []struct {
		name string
		// between happens after the containers are listed and before the sandboxes are.
		between func(*bench)
		want    []event.Type
	}{
		{"the pod stops", func(b *bench) {
			b.set("p", "c", isExited)
			b.sandbox("p", notReady)
		}, []event.Type{event.ContainerDied, event.SandboxDied}},
		{"the pod is removed", func(b *bench) {
			b.drop("c")
			b.dropSandbox("p")
		}, []event.Type{event.ContainerDied, event.ContainerRemoved, event.SandboxDied, event.SandboxRemoved}},
		{"only the container ends", func(b *bench) {
			b.set("p", "c", isExited)
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBench(t, Options{}, func(b *bench) {
				b.pod("p")
				b.set("p", "c", isRunning)
				b.relist("")
				b.told = nil
				first := true
				b.onList = func(context.Context) error {
					time.Sleep(time.Millisecond)
					if first {
						first = false
						c.between(b)
					}
					return nil
				}
				b.relist("p")
				var got []event.Type
				for _, ch := range b.told {
					got = append(got, ch.Type)
				}
				if !slices.Equal(got, c.want) {
					b.Errorf("told %v, want %v", got, c.want)
				}
			})
		})
	}
}

// TestReadAheadIsBounded has many pods' details read ahead at once.
func TestReadAheadIsBounded(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.pods(20)
		for i := range 80 {
			b.set(fmt.Sprintf("p%d", i%20), fmt.Sprintf("c%d", i), isRunning)
		}
		b.relist("")
		b.most = 0
		b.onStatus = func(context.Context, string) error { time.Sleep(slotTime - time.Millisecond); return nil }
		var wg sync.WaitGroup
		for p := range 20 {
			var ids []string
			for i := p; i < 80; i += 20 {
				ids = append(ids, fmt.Sprintf("c%d", i))
				b.set(fmt.Sprintf("p%d", p), fmt.Sprintf("c%d", i), isExited)
			}
			wg.Go(func() { b.engine.Relist(b.Context(), Request{PodUID: fmt.Sprintf("p%d", p), Expect: ids}) })
		}
		wg.Wait()
		b.pass(time.Minute)
		if b.most > statusSlots {
			b.Errorf("%d status reads at once, want %d at most", b.most, statusSlots)
		}
	})
}

// TestReadAheadEnds has a pod flap while its statuses hang: what was read ahead
// must not pile up.
func TestReadAheadEnds(t *testing.T) {
	onBench(t, Options{StatusDeadline: time.Hour}, func(b *bench) {
		b.pod("p")
		b.set("p", "other", isCreated)
		b.set("p", "c", isRunning)
		b.relist("")
		release := b.hang("c", "other")
		defer release()
		b.set("p", "other", isRunning)
		b.relist("p") // the pod's queue waits from here on
		for range 10 {
			b.set("p", "c", isExited)
			b.expecting("p", "c")
			b.set("p", "c", isRunning)
			b.expecting("p", "c")
		}
		if b.reading > 2 {
			b.Errorf("%d reads are going on, want one a container", b.reading)
		}
		b.drop("c")
		b.expecting("p", "c")
		if calls := len(b.engine.readers.calls); calls > 2 {
			b.Errorf("%d calls are held, want one a container", calls)
		}
	})
}

// TestReadAheadOfTheRemoved keeps the exit code of a container that is gone by
// the time it is listed.
func TestReadAheadOfTheRemoved(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.pod("p")
		b.set("p", "c", isRunning)
		b.relist("")
		b.told = nil
		b.set("p", "c", isExited)
		b.onList = func(context.Context) error { time.Sleep(time.Millisecond); b.drop("c"); return nil }
		b.slowContainers = 2 * time.Millisecond
		b.expecting("p", "c")
		b.want("p ContainerDied c (app/0) running -> exited code=3", "p ContainerRemoved c (app/0) exited -> non-existent")
	})
}

// TestListingFailsFast has one call of a pod's listing fail while another hangs.
func TestListingFailsFast(t *testing.T) {
	onBench(t, Options{}, func(b *bench) {
		b.pod("p")
		b.set("p", "c", isRunning)
		b.relist("")
		boom := errors.New("no list")
		b.onList = func(context.Context) error { return boom }
		b.hangContainers = true
		began := time.Now()
		res := b.engine.Relist(b.Context(), Request{PodUID: "p"})
		if !errors.Is(res.Err, boom) || time.Since(began) != 0 {
			b.Errorf("failed after %s with %v", time.Since(began), res.Err)
		}
	})
}
