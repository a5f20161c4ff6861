package relist

import "sync"

// tellAnomalies makes each kind of anomaly be logged once, beside being counted
// by the caller's own hook.
func (e *Engine) tellAnomalies(opts StoreOptions) StoreOptions {
	var (
		mu   sync.Mutex
		told = make(map[Anomaly]bool)
		next = opts.OnAnomaly
	)
	opts.OnAnomaly = func(a Anomaly) {
		mu.Lock()
		first := !told[a]
		told[a] = true
		mu.Unlock()
		if first {
			e.opts.Log.Warn("the runtime's list holds something that should not be there; further ones are only counted", "kind", a)
		}
		if next != nil {
			next(a)
		}
	}
	return opts
}
