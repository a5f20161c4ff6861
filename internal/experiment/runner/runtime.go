package runner

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded"
	"github.com/hybrid-pleg/hybrid-pleg/internal/embedded/stage"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/arm"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/cri"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/plan"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/truth"
	"github.com/hybrid-pleg/hybrid-pleg/internal/experiment/workload"
	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
	"github.com/hybrid-pleg/hybrid-pleg/internal/version"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
)

// site is the runtime that an experiment takes place on.
type site struct {
	target  arm.Target
	conn    *cri.Conn
	setting workload.Setting
	// pid is the runtime's process, 0 where it is not known.
	pid int
	// close ends what was started for the experiment.
	close func() error
}

func dial(ctx context.Context, at string) (*cri.Conn, error) {
	return cri.Dial(klog.NewContext(ctx, klog.Logger{}), at)
}

func hasImage(ctx context.Context, conn *cri.Conn, image string) error {
	resp, err := conn.Images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: image}})
	if err != nil {
		return fmt.Errorf("ask the runtime for %s: %w", image, err)
	}
	if resp.GetImage() == nil {
		return fmt.Errorf("the runtime has no %s: pull it first, with crictl pull say", image)
	}
	return nil
}

// openSite starts the runtime, or connects to it.
func (r *Ready) openSite(ctx context.Context, ledger *truth.Ledger, progress *Progress) (_ *site, err error) {
	s := &site{close: func() error { return nil }}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.end())
		}
	}()
	run := fmt.Sprintf("%s-%d", r.opts.Plan.Name, time.Now().Unix())
	switch {
	case !r.real():
		err = s.embedded(ctx, r, ledger)
	case r.foreign():
		s.target.Endpoint = r.opts.Runtime
		s.setting = workload.Setting{
			Image: r.opts.Image, Lives: workload.FromTemplate(r.opts.Command), Stays: workload.StaysByTemplate(r.opts.Command),
		}
	default:
		err = s.containerd(ctx, progress)
	}
	if err != nil {
		return nil, err
	}
	s.setting.Run = labelValue(run)
	if s.conn, err = dial(ctx, s.target.Endpoint); err != nil {
		return nil, err
	}
	if r.foreign() {
		s.cgroups(ctx)
	}
	s.pid = arm.ListenerPid(strings.TrimPrefix(s.target.Endpoint, "unix://"))
	return s, nil
}

// labelValue makes a word fit for a label.
func labelValue(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '-'
	}, s)
}

// cgroups has pods laid out as the runtime's cgroup driver wants it. A runtime that does
// not tell is taken for one with cgroupfs.
func (s *site) cgroups(ctx context.Context) {
	s.setting.CgroupParent = workload.CgroupfsParent(workload.CgroupRoot)
	s.setting.RemoveCgroup = workload.RemoveCgroup
	s.close = func() error { return workload.RemoveCgroup(workload.CgroupRoot) }
	resp, err := s.conn.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
	if err == nil && resp.GetLinux().GetCgroupDriver() == runtimeapi.CgroupDriver_SYSTEMD {
		s.setting.CgroupParent, s.setting.RemoveCgroup = workload.SystemdParent, nil
		s.close = func() error { return nil }
	}
}

func (s *site) containerd(ctx context.Context, progress *Progress) error {
	rt, err := testruntime.Start(klog.NewContext(ctx, klog.Logger{}), testruntime.Options{Progress: progress})
	if err != nil {
		return err
	}
	s.close = func() error {
		err := rt.Close()
		for _, line := range rt.Leftovers() {
			err = errors.Join(err, fmt.Errorf("left behind: %s", line))
		}
		return err
	}
	s.target.Endpoint = rt.Endpoint()
	s.setting = workload.Setting{
		Image:        testruntime.Image,
		Lives:        func(d time.Duration) ([]string, []string) { return nil, []string{"exit", "0", d.String()} },
		Stays:        func() ([]string, []string) { return nil, []string{"sleep"} },
		CgroupParent: workload.CgroupfsParent(rt.CgroupRoot()),
		RemoveCgroup: workload.RemoveCgroup,
	}
	return nil
}

// hello is the first line of an embedded runtime in a process of its own.
type hello struct {
	Endpoint   string `json:"endpoint"`
	CgroupRoot string `json:"cgroupRoot"`
}

// embedded starts an embedded runtime as a process, so that what it spends can be told
// from what the experiment does.
func (s *site) embedded(ctx context.Context, r *Ready, ledger *truth.Ledger) error {
	said := make(chan hello, 1)
	var accountErr error
	p := r.opts.Plan
	process, err := arm.Spawn([]string{r.opts.Program, "experiment", "runtime",
		"--state-lag=" + p.StateLag.String(), fmt.Sprintf("--seed=%d", p.Seed)}, func(out io.Reader) {
		lines := bufio.NewReader(out)
		first, err := lines.ReadBytes('\n')
		var h hello
		if err == nil && json.Unmarshal(first, &h) == nil {
			said <- h
			accountErr = truth.ReadAccount(lines, ledger)
		}
	})
	if err != nil {
		return fmt.Errorf("start the embedded runtime: %w", err)
	}
	s.close = func() error {
		process.Stop()
		return accountErr // its reader has ended with the process
	}
	select {
	case h := <-said:
		s.target = arm.Target{Endpoint: h.Endpoint, CgroupRoot: h.CgroupRoot}
	case <-process.Done():
		return fmt.Errorf("start the embedded runtime: %s", process.Ending())
	case <-ctx.Done():
		return ctx.Err()
	}
	s.setting = workload.Setting{
		Image:        "example.invalid/experiment:1",
		Lives:        func(d time.Duration) ([]string, []string) { return nil, []string{"exit", "0", "after", d.String()} },
		Stays:        func() ([]string, []string) { return nil, []string{"run"} },
		CgroupParent: workload.CgroupfsParent("/"),
		Parallel:     32,
	}
	return nil
}

// ServeEmbedded is the other side: an embedded runtime that tells where it is, and then
// what befalls its containers, until ctx ends.
func ServeEmbedded(ctx context.Context, lag plan.Lag, seed uint64, out io.Writer) error {
	account := &lateAccount{}
	st, err := stage.Start(ctx, stage.Options{
		Empty: true, Seed: seed, Version: version.Number(), Account: account.note,
		Lag: embedded.Lag{
			Start: embedded.Uniform(lag.Start[0], lag.Start[1]),
			Exit:  embedded.Uniform(lag.Exit[0], lag.Exit[1]),
			Event: embedded.Uniform(lag.Event[0], lag.Event[1]),
		},
	})
	if err != nil {
		return err
	}
	err = json.NewEncoder(out).Encode(hello{st.Endpoint(), st.CgroupRoot()})
	to := truth.NewAccount(out)
	account.open(to)
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, st.Close(), to.Close())
}

// lateAccount stands in for an account until that is there: the runtime wants one to
// begin with, and the address, which is the first line, is known only after.
type lateAccount struct {
	mu sync.Mutex
	to *truth.Account
}

func (l *lateAccount) open(to *truth.Account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = to
}

func (l *lateAccount) note(id string, what embedded.Moment) {
	l.mu.Lock()
	to := l.to
	l.mu.Unlock()
	if to != nil { // before the address is told there is no container
		to.Note(id, what)
	}
}

// end ends the connection and what was started.
func (s *site) end() error {
	if s.conn != nil {
		s.conn.Close()
	}
	return s.close()
}
