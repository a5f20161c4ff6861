// Command cgroup-agent keeps a file for each running container of this node, named by
// the container's ID, that says where the kernel keeps it: for tools that have a pid or
// a cgroup ID, as BPF programs see it, and want to know whose it is.
//
//	cgroup-agent -dir /run/cgroup-agent
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/hybrid-pleg/hybrid-pleg/pkg/client"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/event"
	"github.com/hybrid-pleg/hybrid-pleg/pkg/merge"
)

func main() {
	address := flag.String("address", client.DefaultAddress, "the daemon's socket")
	dir := flag.String("dir", "cgroup-agent", "where to keep the files")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *address, *dir)
	stop()
	if !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

// run follows the daemon until ctx ends.
func run(ctx context.Context, address, dir string) error {
	notes, tokenFile := filepath.Join(dir, "containers"), filepath.Join(dir, "token")
	stored, err := os.ReadFile(tokenFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var since merge.Token
	if err := since.UnmarshalText(stored); err != nil {
		return fmt.Errorf("%s: %w; remove it to begin anew", tokenFile, err)
	}
	c, err := client.New(client.Options{Address: address})
	if err != nil {
		return err
	}
	defer c.Close()
	for u, err := range c.Events(ctx, client.WatchOptions{Since: since}) {
		switch {
		case err != nil:
			return err
		case u.Kind == client.KindReset: // what the files say is void
			err = errors.Join(os.RemoveAll(notes), os.MkdirAll(notes, 0o755))
		case u.Kind == client.KindPod:
			for _, s := range u.Pod.Containers {
				err = errors.Join(err, note(notes, u.Pod.Pod, s.Container, s.State, s.Status))
			}
		case u.Kind == client.KindEvent && u.Event.Container != nil:
			err = note(notes, u.Event.Pod, *u.Event.Container, u.Event.To, u.Event.Status)
		}
		if err == nil {
			// Only now: after a crash in between, the same is done once more.
			err = os.WriteFile(tokenFile, []byte(u.Token.String()), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// note writes a running container's file, and removes any other's.
func note(dir string, pod event.Pod, c event.Container, state event.State, s *event.Status) error {
	path := filepath.Join(dir, c.ID)
	if state != event.StateRunning {
		return os.RemoveAll(path) // which need not be there
	}
	if s == nil { // the runtime is late with it; a PodSync brings it
		s = &event.Status{}
	}
	text := fmt.Sprintf("pod=%s/%s container=%s pid=%d cgroup=%s cgroupid=%d\n",
		pod.Namespace, pod.Name, c.Name, s.Pid, s.CgroupPath, s.CgroupID)
	return os.WriteFile(path, []byte(text), 0o644)
}
