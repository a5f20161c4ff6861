package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
)

// churn keeps n pods coming and going until ctx ends or a pod cannot be made.
func churn(ctx context.Context, r *testruntime.Runtime, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for life := 1; ctx.Err() == nil; life++ {
				if err := live(ctx, r, fmt.Sprintf("demo-%d-%d", i+1, life)); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// live is the life of one pod: a container that is started again a few times,
// ending with one code or another, and then the end of the pod.
func live(ctx context.Context, r *testruntime.Runtime, name string) error {
	pod, err := r.RunPod(ctx, testruntime.PodSpec{Namespace: "demo", Name: name})
	if err != nil {
		return err
	}
	last := 1 + rand.Uint32N(3)
	for attempt := range last {
		code, after := rand.IntN(3), time.Second+rand.N(8*time.Second)
		c, err := pod.RunContainer(ctx, testruntime.ContainerSpec{
			Name: "worker", Attempt: attempt, Args: []string{"exit", strconv.Itoa(code), after.String()},
		})
		if err != nil {
			return err
		}
		if _, err := c.Wait(ctx); err != nil {
			return err
		}
	}
	return pod.Remove(ctx)
}
