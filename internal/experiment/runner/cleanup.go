package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/hybrid-pleg/hybrid-pleg/internal/endpoint"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/workload"
)

// Cleanup removes what experiments have left on a runtime, and says how many pods
// there were.
func Cleanup(ctx context.Context, at string, getenv func(string) string) (int, error) {
	choice, err := (endpoint.Resolver{Getenv: getenv}).Resolve(ctx, at)
	if err != nil {
		return 0, err
	}
	if choice.Endpoint == "" {
		return 0, fmt.Errorf("no runtime to clean: %s", choice.Why)
	}
	conn, err := dial(ctx, choice.Endpoint)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	n, err := workload.Clean(ctx, conn)
	return n, errors.Join(err, workload.RemoveCgroup(workload.CgroupRoot))
}
