package arm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/clock"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/plan"
)

// Arm is a generator that runs.
type Arm struct {
	*Told
	Plan    *plan.Arm
	Command []string

	process *Process
	// address serves metrics and readiness; empty for an arm without.
	address string
	client  http.Client
	ready   atomic.Bool
}

// scrapeTime bounds a look at an arm's metrics or readiness.
const scrapeTime = 5 * time.Second

// Start starts an arm. It is not ready then; see [Arm.Ready].
func Start(p *plan.Arm, command []string, wall *clock.Wall) (*Arm, error) {
	a := &Arm{Told: newTold(wall), Plan: p, Command: command}
	a.client = http.Client{Timeout: scrapeTime, Transport: &http.Transport{DisableKeepAlives: true}}
	var err error
	if a.process, err = Spawn(command, a.read); err != nil {
		return nil, fmt.Errorf("start arm %s: %w", p.Name, err)
	}
	return a, nil
}

// What the programs log when they are up.
var (
	serving = regexp.MustCompile(`http=http://(\S+)`)
	listed  = regexp.MustCompile(`everything was listed for the first time`)
)

// readyTime bounds how long an arm's triggers may take to come up.
const readyTime = 20 * time.Second

// Ready waits until the arm has listed everything and its triggers work. The notes say
// what does not, after a while; the error, that the arm is of no use.
func (a *Arm) Ready(ctx context.Context) (notes []string, err error) {
	notes, err = a.await(ctx)
	a.ready.Store(err == nil)
	return notes, err
}

// WasReady reports whether Ready found the arm at work.
func (a *Arm) WasReady() bool { return a.ready.Load() }

// EndedAt is when the arm ended; 0 while it runs.
func (a *Arm) EndedAt() int64 { return a.process.endedAt.Load() }

func (a *Arm) await(ctx context.Context) (notes []string, err error) {
	wanted := serving
	if a.Plan.Kubelet() {
		wanted = listed
	}
	select {
	case m, ok := <-a.process.logLine(wanted):
		if !ok {
			return nil, errors.New(a.Failed())
		}
		if wanted == serving {
			a.address = m[1]
			break
		}
		select { // it says where its metrics are before it says that it has listed
		case m, ok := <-a.process.logLine(serving):
			if ok {
				a.address = m[1]
			}
		default:
		}
		return nil, nil
	case <-time.After(readyTime):
		return nil, fmt.Errorf("after %s it has not come up", readyTime)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	deadline := time.Now().Add(readyTime)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		healthy, down, err := a.readiness(ctx)
		switch {
		case a.process.ended():
			return nil, errors.New(a.Failed())
		case healthy && len(down) == 0:
			return nil, nil
		case time.Now().After(deadline) && healthy:
			return down, nil
		case time.Now().After(deadline):
			return nil, fmt.Errorf("after %s it has not listed the runtime: %w", readyTime, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// readiness asks /readyz; see package web.
func (a *Arm) readiness(ctx context.Context) (healthy bool, down []string, err error) {
	body, err := a.get(ctx, "/readyz")
	if err != nil {
		return false, nil, err
	}
	var report struct {
		Healthy bool   `json:"healthy"`
		Reason  string `json:"reason"`
		Sources []struct {
			Name   string `json:"name"`
			Up     bool   `json:"up"`
			Reason string `json:"reason"`
		} `json:"sources"`
	}
	if err := json.Unmarshal(body, &report); err != nil {
		return false, nil, err
	}
	for _, s := range report.Sources {
		if !s.Up {
			down = append(down, fmt.Sprintf("its trigger %s is down: %s", s.Name, s.Reason))
		}
	}
	if !report.Healthy {
		err = errors.New(report.Reason)
	}
	return report.Healthy, down, err
}

func (a *Arm) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.address+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(io.LimitReader(resp.Body, 16<<20))
}

// Usage is what an arm has spent since its start.
type Usage struct {
	CPU time.Duration
	// Calls of the runtime by method; nil where the arm does not tell.
	Calls map[string]uint64
	// PeakRSS is the most memory held, in bytes.
	PeakRSS int64
}

// Begin reads what was spent so far. It asks for the metrics first, so that the asking
// is not part of what is measured from here on.
func (a *Arm) Begin(ctx context.Context) (Usage, error) {
	calls := a.calls(ctx)
	ResetPeak(a.process.Pid())
	u, err := a.spent()
	u.Calls = calls
	return u, err
}

// End reads what was spent so far, processor time first.
func (a *Arm) End(ctx context.Context) (Usage, error) {
	u, err := a.spent()
	if err == nil {
		u.Calls = a.calls(ctx)
	}
	return u, err
}

func (a *Arm) spent() (u Usage, err error) {
	if a.process.ended() {
		return u, errors.New(a.Failed())
	}
	if u.CPU, err = CPUTime(a.process.Pid()); err != nil {
		return u, err
	}
	u.PeakRSS, err = PeakMemory(a.process.Pid())
	return u, err
}

// The metrics that count calls of the runtime: hybrid-pleg's by the CRI's name of the
// method, the kubelet's by a name of its own (pkg/kubelet/kuberuntime/instrumented_services.go).
var (
	callsMetric        = regexp.MustCompile(`(?m)^hybrid_pleg_cri_calls_total\{method="([^"]+)"\} (\S+)$`)
	kubeletCallsMetric = regexp.MustCompile(`(?m)^kubelet_runtime_operations_total\{operation_type="([^"]+)"\} (\S+)$`)
)

// method is the CRI's name of what the kubelet calls an operation. Those that its
// generators make no use of keep the kubelet's.
func method(operation string) string {
	switch operation {
	case "version":
		return "Version"
	case "list_containers":
		return "ListContainers"
	case "list_podsandbox":
		return "ListPodSandbox"
	case "container_status":
		return "ContainerStatus"
	case "podsandbox_status":
		return "PodSandboxStatus"
	case "get_container_events":
		return "GetContainerEvents"
	default:
		return operation
	}
}

func (a *Arm) calls(ctx context.Context) map[string]uint64 {
	if a.address == "" {
		return nil
	}
	page, err := a.get(ctx, "/metrics")
	if err != nil {
		return nil
	}
	return parseCalls(string(page))
}

func parseCalls(page string) map[string]uint64 {
	calls := make(map[string]uint64)
	add := func(name, value string) {
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			calls[name] = uint64(n)
		}
	}
	for _, m := range callsMetric.FindAllStringSubmatch(page, -1) {
		add(m[1], m[2])
	}
	for _, m := range kubeletCallsMetric.FindAllStringSubmatch(page, -1) {
		add(method(m[1]), m[2])
	}
	if len(calls) == 0 {
		return nil
	}
	return calls
}

// Ended reports whether the arm has ended.
func (a *Arm) Ended() bool { return a.process.ended() }

// Failed says how an arm that has ended did, before anybody stopped it.
func (a *Arm) Failed() string {
	return strings.ReplaceAll(a.process.Ending(), "\n", " ")
}

// Stop ends the arm, and returns when all that it told was read.
func (a *Arm) Stop() { a.process.Stop() }
