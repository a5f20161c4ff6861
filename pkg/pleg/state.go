package pleg

import (
	"context"
	"slices"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/relist"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/state"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/trigger"
)

// kernelWait bounds how long the first listing after a restart waits for the cgroup
// source to come up, which takes milliseconds: until then the kernel's word on what
// a listing lacks is not to be had.
const kernelWait = 3 * time.Second

// StateProblem says why the state is not kept in [Options].StateDir at the moment,
// and what to do. It is empty while it is kept, and without a directory.
func (g *Generator) StateProblem() string {
	if g.keeper == nil {
		return ""
	}
	return g.keeper.Problem()
}

// openState takes the state directory, where there is one.
func (g *Generator) openState() error {
	if g.opts.StateDir == "" {
		return nil
	}
	keeper, err := state.Open(state.Options{
		Dir:           g.opts.StateDir,
		JournalEvents: g.opts.JournalEvents,
		OnWrite:       func(took time.Duration, err error) { g.metrics.state.written(took, err) },
		Log:           g.opts.Log,
	})
	if err != nil {
		return err
	}
	g.keeper = keeper
	return nil
}

// restored is what was kept of the run before; nil where nothing was.
func (g *Generator) restored() *merge.State {
	if g.keeper == nil {
		return nil
	}
	return g.keeper.Restored()
}

// restoreRecords gives the records of the run before to the engine.
func (g *Generator) restoreRecords(s *merge.State) {
	if s == nil {
		return
	}
	items := make([]relist.Restored, len(s.Items))
	for i := range s.Items {
		it := &s.Items[i]
		items[i] = relist.Restored{
			Pod: it.Pod, Sandbox: it.Sandbox, Container: it.Container,
			CreatedAt: it.CreatedAt, State: it.Seen, Status: it.Status,
			Started: slices.Contains(it.Told, event.ContainerStarted) || slices.Contains(it.Told, event.SandboxStarted),
		}
	}
	var removed []string
	for _, e := range s.Events {
		switch e.Type {
		case event.ContainerRemoved:
			removed = append(removed, e.Container.ID)
		case event.SandboxRemoved:
			removed = append(removed, e.Sandbox.ID)
		}
	}
	g.engine.Restore(items, removed)
}

// keepState writes the state until the returned function is called, which has it
// written for the last time.
func (g *Generator) keepState(ctx context.Context) (end func()) {
	if g.keeper == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- g.keeper.Run(ctx, g.log) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			g.opts.Log.Error("the last of the state was not written: the next start goes on from before it", "err", err)
		}
	}
}

// awaitKernel waits until the cgroup source can say what runs, where there is
// something to ask about: a runtime that was restarted together with this process
// may leave out what runs, and told as removed, it could never be told again.
func (g *Generator) awaitKernel(ctx context.Context) {
	select {
	case <-g.kernel:
	case <-ctx.Done():
	}
}

// kernelReported ends that wait once the source works, or is known not to.
func (g *Generator) kernelReported(st trigger.SourceStatus) {
	if st.Name == trigger.SourceCgroup && (st.Up || st.Err != nil) {
		g.kernelKnown()
	}
}
