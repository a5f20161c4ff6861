package embedded_test

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
)

// A test steps through a history: without lag, each change is visible when the
// call that makes it returns.
func Example() {
	ctx := context.Background()
	rt := embedded.New(embedded.Options{Lag: embedded.NoLag()})
	defer rt.Close()

	config := embedded.PodConfig("shop", "web-0", "26ab26cd-6409-443f-a13c-fd6c231207c8", 0, embedded.Burstable)
	pod, _ := rt.RunPod(ctx, config)
	id, _ := rt.Create(ctx, pod, embedded.ContainerConfig(config, "api", 0, "example/api:1", "run"))
	rt.Start(ctx, id)

	client := rt.Client()
	show := func() {
		list, err := client.ListContainers(ctx, nil)
		if err != nil {
			fmt.Println(status.Code(err))
			return
		}
		for _, c := range list {
			fmt.Println(c.Metadata.Name, c.State)
		}
	}
	show()
	rt.Exit(id, 3, "")
	show()
	rt.Faults().Add(embedded.Fault{Method: "ListContainers", Times: 1, Err: status.Error(codes.Unavailable, "restarting")})
	show()

	// Output:
	// api CONTAINER_RUNNING
	// api CONTAINER_EXITED
	// Unavailable
}

// A container's command says how long it lives and how it ends.
func ExampleRuntime_Wait() {
	ctx := context.Background()
	rt := embedded.New(embedded.Options{Lag: embedded.Lag{Exit: embedded.Uniform(time.Millisecond, 2*time.Millisecond)}})
	defer rt.Close()

	config := embedded.PodConfig("batch", "report", "26ab26cd-6409-443f-a13c-fd6c231207c8", 0, embedded.BestEffort)
	pod, _ := rt.RunPod(ctx, config)
	id, _ := rt.Create(ctx, pod, embedded.ContainerConfig(config, "report", 0, "example/report:1", "oom", "after", "10ms"))
	rt.Start(ctx, id)
	end, _ := rt.Wait(ctx, id)
	fmt.Println(end.ExitCode, end.Reason)

	// Output:
	// 137 OOMKilled
}
