package relist

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// aheadMost bounds the statuses read ahead of one relist. A pod of which more
// has been announced takes longer anyway.
const aheadMost = 4

// ahead is a container's status asked for while its pod is being listed, since
// the listing is expected to show a change that wants it. It is used if it turns
// out to be no older than the listing, and read again otherwise.
type ahead struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when status or err is set
	status *runtimeapi.ContainerStatus
	err    error
}

// readAhead starts reading the statuses of containers that are expected to have
// changed. It is a courtesy: where there is no room, nothing is read.
func (e *Engine) readAhead(ids []string) map[string]*ahead {
	if len(ids) == 0 {
		return nil
	}
	out := make(map[string]*ahead)
	for _, id := range ids {
		if len(out) == aheadMost || out[id] != nil || !e.store.isContainer(id) {
			continue
		}
		select {
		case e.readers.calls <- struct{}{}:
		default:
			return out
		}
		select {
		case e.readers.slots <- struct{}{}:
		default:
			<-e.readers.calls
			return out
		}
		a := &ahead{done: make(chan struct{})}
		var ctx context.Context
		ctx, a.cancel = context.WithTimeout(e.ctx, statusTimeout)
		out[id] = a
		e.wg.Go(func() {
			defer func() { <-e.readers.calls }()
			defer e.readers.leaveSlot()()
			a.status, a.err = e.askStatus(ctx, id)
			close(a.done)
		})
	}
	return out
}

// await returns what was read.
func (a *ahead) await(ctx context.Context) (*runtimeapi.ContainerStatus, error) {
	defer a.cancel()
	select {
	case <-a.done:
		return a.status, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
