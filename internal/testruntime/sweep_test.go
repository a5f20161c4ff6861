package testruntime

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testutil"
)

// victimEnv makes this test binary the process that TestSweepAfterKill kills; its
// value is Options.Dir.
const victimEnv = "TESTRUNTIME_VICTIM"

func TestMain(m *testing.M) {
	if parent := os.Getenv(victimEnv); parent != "" {
		if err := victim(context.Background(), parent); err != nil {
			fmt.Println(err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// victim runs a container, tells where, and waits to be killed.
func victim(ctx context.Context, parent string) error {
	r, err := Start(ctx, Options{Dir: parent})
	if err != nil {
		return err
	}
	pod, err := r.RunPod(ctx, PodSpec{})
	if err != nil {
		return err
	}
	if _, err := pod.RunContainer(ctx, ContainerSpec{Args: []string{"ignore-term"}}); err != nil {
		return err
	}
	fmt.Println("victim", r.Dir(), r.CgroupRoot(), r.Pid())
	select {}
}

func TestSweepAfterKill(t *testing.T) {
	testutil.Need(t, "containerd", Check())
	parent := shortDir(t)
	victim := exec.CommandContext(t.Context(), os.Args[0])
	victim.Env = append(os.Environ(), victimEnv+"="+parent)
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	var l layout
	var cgroup string
	var pid int
	var said strings.Builder
	for lines := bufio.NewScanner(out); pid == 0; {
		if !lines.Scan() {
			t.Fatalf("the victim ended early: %v\n%s", victim.Wait(), said.String())
		}
		said.WriteString(lines.Text() + "\n")
		_, _ = fmt.Sscanf(lines.Text(), "victim %s %s %d", &l.dir, &cgroup, &pid)
	}

	if err := Sweep(t.Context(), parent); err != nil {
		t.Fatal(err)
	}
	if daemons, err := daemonsOf(l.dir); err != nil || len(daemons) < 2 {
		t.Fatalf("a sweep touched the runtime of a living process: left are %v, error %v", daemons, err)
	}

	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	err = poll(t.Context(), time.Millisecond, func() error {
		daemons, err := daemonsOf(l.dir)
		for _, d := range daemons {
			if d.pid == pid {
				err = fmt.Errorf("containerd outlived its owner")
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if len(remains(l, cgroup)) == 0 {
		t.Error("nothing is left before the sweep: the test tests nothing")
	}
	if err := Sweep(t.Context(), parent); err != nil {
		t.Fatal(err)
	}
	if left := remains(l, cgroup); len(left) > 0 {
		t.Errorf("left after the sweep:\n%s", strings.Join(left, "\n"))
	}
}
