package serve

import (
	"sync"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

// TestRefusalsTakeNothing has many be refused at the same time: that is not to put off
// those who come later.
func TestRefusalsTakeNothing(t *testing.T) {
	s, err := New(Options{Backend: newBackend(t, merge.Options{}), Limits: Limits{RequestsPerSecond: 1}})
	if err != nil {
		t.Fatal(err)
	}
	admitted := 0
	for ok := true; ok; admitted++ {
		ok, _ = s.admit()
	}
	var crowd sync.WaitGroup
	for range 8 {
		crowd.Go(func() {
			for range 10_000 {
				if ok, wait := s.admit(); !ok && (wait <= 0 || wait > time.Second) {
					t.Errorf("told to wait for %v", wait)
				}
			}
		})
	}
	crowd.Wait()
	if left := s.bucket.TokensAt(time.Now()); left < 0 {
		t.Errorf("the bucket lacks %.1f", -left)
	}
}
