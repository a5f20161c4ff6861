package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
)

// Options says how much is going on. The zero value is a play that a person can
// follow.
type Options struct {
	// Pods is how many pods take part; 0 means 8. Half of them are services, with
	// two containers each; the others have one. Jobs are away between their runs, so
	// that about four fifths are there at a time.
	Pods int
	// Rate is how many transitions happen a second, all pods together and over a
	// longer time; 0 means 1.5. A transition is what becomes an event: a sandbox
	// or container being started, say. The first round, in which all pods come up
	// within about two seconds, is extra.
	Rate float64
	// Seed makes the play repeatable; 0 draws one.
	Seed uint64
}

const (
	defaultPods = 8
	defaultRate = 1.5
	// opening is how long it takes at most until all pods are there, and pace what
	// lies between two of them where that is shorter.
	opening = 2 * time.Second
	pace    = 150 * time.Millisecond
)

// Run plays on rt until ctx ends or rt is closed, and leaves the pods as they are
// then. What others do to its pods in the meantime it takes as it comes, and
// starts those pods anew.
func Run(ctx context.Context, rt *embedded.Runtime, o Options) error {
	if o.Pods < 0 || o.Rate < 0 {
		return fmt.Errorf("workload: %d pods at %g transitions a second can't be played; both must be positive, or 0 for the default", o.Pods, o.Rate)
	}
	if o.Pods == 0 {
		o.Pods = defaultPods
	}
	if o.Rate == 0 {
		o.Rate = defaultRate
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	roles := cast()
	var weights float64
	for i := range o.Pods {
		weights += roles[i%len(roles)].weight
	}
	between := min(pace, opening/time.Duration(o.Pods))
	var all sync.WaitGroup
	for i := range o.Pods {
		role := roles[i%len(roles)]
		a := &actor{
			ctx:   ctx,
			rt:    rt,
			rng:   rand.New(rand.NewPCG(o.Seed, uint64(i))),
			round: i / len(roles),
			pods:  map[string]struct{}{},
			beat:  time.Duration(float64(time.Second) * weights / (o.Rate * role.weight)),
		}
		all.Go(func() {
			if a.sleep(time.Duration(i)*between) == nil {
				a.perform(role)
			}
		})
	}
	all.Wait()
	return nil
}

// perform plays a role over and over.
func (a *actor) perform(role role) {
	for a.over() == nil {
		err := role.play(a)
		// Whatever is left of the pods of a play that broke off would be in the way
		// of the next.
		for id := range a.pods {
			if a.rt.RemovePod(a.ctx, id) != nil {
				return
			}
			delete(a.pods, id)
		}
		if err != nil && a.rest(1) != nil {
			return
		}
	}
}
