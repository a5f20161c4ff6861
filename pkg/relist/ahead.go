package relist

import "context"

// aheadMost bounds the statuses read ahead of one relist. A pod of which more
// has been announced takes longer anyway.
const aheadMost = 4

// ahead is a container's status asked for while its pod is being listed, since
// the listing is expected to show a change that wants it. It is used if it turns
// out to be no older than the listing, and read again otherwise.
type ahead struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when answer or err is set
	answer answer
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
		st, known := e.store.container(id)
		if len(out) == aheadMost || out[id] != nil || !known {
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
			// What runs already can only end.
			a.answer, a.err = e.askStatus(ctx, id, st != running)
			close(a.done)
		})
	}
	return out
}

// await returns what was read.
func (a *ahead) await(ctx context.Context) (answer, error) {
	defer a.cancel()
	select {
	case <-a.done:
		return a.answer, a.err
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}
