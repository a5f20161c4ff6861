package relist

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	isCreated = runtimeapi.ContainerState_CONTAINER_CREATED
	isRunning = runtimeapi.ContainerState_CONTAINER_RUNNING
	isExited  = runtimeapi.ContainerState_CONTAINER_EXITED
)

// bench is an engine on a fake runtime, and what it has handed on.
type bench struct {
	*testing.T
	*fakeRuntime
	engine *Engine
	start  time.Time

	smu  sync.Mutex
	told []toldChange
}

type toldChange struct {
	Change
	after time.Duration // since the start
}

// onBench runs f in a bubble of its own with an engine that is closed afterwards;
// the bubble makes sure that the engine leaves no goroutine behind.
func onBench(t *testing.T, opts Options, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, fakeRuntime: &fakeRuntime{}, start: time.Now()}
		opts.Runtime = b.fakeRuntime
		opts.Sink = func(changes []Change) {
			b.smu.Lock()
			defer b.smu.Unlock()
			for _, c := range changes {
				b.told = append(b.told, toldChange{c, time.Since(b.start)})
			}
		}
		e, err := New(opts)
		if err != nil {
			t.Fatal(err)
		}
		b.engine = e
		f(b)
		e.Close()
	})
}

// relist relists a pod, or all, and lets everything come to rest that does so
// without time passing.
func (b *bench) relist(uid string) Result {
	b.Helper()
	res := b.engine.Relist(b.Context(), Request{PodUID: uid})
	if res.Err != nil {
		b.Fatal(res.Err)
	}
	synctest.Wait()
	return res
}

// pass lets time pass.
func (b *bench) pass(d time.Duration) {
	time.Sleep(d) // in the bubble, where it takes none
	synctest.Wait()
}

// take returns what was told since, a line for each change.
func (b *bench) take() []string {
	b.smu.Lock()
	defer b.smu.Unlock()
	var lines []string
	for i := range b.told {
		lines = append(lines, describeChange(&b.told[i].Change))
	}
	b.told = nil
	return lines
}

func (b *bench) want(lines ...string) {
	b.Helper()
	if got := b.take(); !slices.Equal(got, lines) {
		b.Errorf("told:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(lines, "\n\t"))
	}
}

// hang makes the status reads of the given containers hang until their context
// ends or release is called.
func (b *bench) hang(ids ...string) (release func()) {
	freed := make(chan struct{})
	b.onStatus = func(ctx context.Context, id string) error {
		if !slices.Contains(ids, id) {
			return nil
		}
		select {
		case <-freed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return func() { close(freed) }
}
