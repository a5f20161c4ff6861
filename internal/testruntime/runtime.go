package testruntime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sync"
	"time"

	criapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	criclient "k8s.io/cri-client/pkg"
	"k8s.io/klog/v2"
)

// callTimeout bounds each call of the CRI client. It is long, since hundreds of
// containers may be made at once on a small machine.
const callTimeout = 2 * time.Minute

// Runtime is a running containerd of this process's own.
type Runtime struct {
	options Options
	layout  layout
	binDir  string
	// cgroupRoot is the cgroup above kubepods, ownCgroup the one to be removed.
	cgroupRoot, ownCgroup string
	lock                  *os.File
	client                criapi.RuntimeService

	mu     sync.Mutex // guards the fields below
	daemon *daemon
	closed bool
}

// Start starts a runtime: when it returns, pods can be made. It builds what is not
// built yet and removes the remains of earlier runtimes whose processes were killed.
// ctx bounds the start, not the life of the runtime: that ends with [Runtime.Close],
// which the caller must call, or with the process. After an error nothing is left.
func Start(ctx context.Context, o Options) (_ *Runtime, err error) {
	if err := Check(); err != nil {
		return nil, err
	}
	if o.BinDir == "" {
		if o.BinDir, err = Build(ctx, o.Progress); err != nil {
			return nil, err
		}
	}
	if o.BinDir, err = filepath.Abs(o.BinDir); err != nil {
		return nil, err
	}
	if err := checkBinaries(o.BinDir); err != nil {
		return nil, fmt.Errorf("the folder of the binaries is incomplete: %w", err)
	}
	if o.ImageArchive == "" {
		if o.ImageArchive, err = BuildImage(ctx); err != nil {
			return nil, err
		}
	}
	if err := Sweep(ctx, o.Dir); err != nil {
		// A nuisance, but not one that keeps this runtime from working.
		fmt.Fprintf(progressOr(o.Progress), "testruntime: remove the remains of a killed runtime: %v\n", err)
	}
	r, err := prepare(o)
	if err != nil {
		return nil, err
	}
	defer func() { //nolint:contextcheck // it must be closed even if ctx has ended
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if r.daemon, err = startDaemon(r.layout, o.BinDir, o.Log); err != nil {
		return nil, err
	}
	if err := r.connect(ctx); err != nil {
		return nil, err
	}
	if err := r.importImage(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// prepare makes the private directory.
func prepare(o Options) (*Runtime, error) {
	parent := o.Dir
	if parent == "" {
		parent = os.TempDir()
	}
	parent, err := filepath.Abs(parent)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parent, dirPrefix)
	if err != nil {
		return nil, err
	}
	r := &Runtime{options: o, layout: layout{dir}, binDir: o.BinDir, cgroupRoot: o.CgroupRoot}
	if r.cgroupRoot == "" {
		r.cgroupRoot = ownCgroup(dir)
	}
	r.ownCgroup = r.cgroupRoot
	if r.cgroupRoot == "/" {
		r.ownCgroup = "/kubepods"
	}
	if err := r.fill(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return r, nil
}

func (r *Runtime) fill() (err error) {
	if err := r.layout.check(); err != nil {
		return err
	}
	if !path.IsAbs(r.cgroupRoot) || path.Clean(r.cgroupRoot) != r.cgroupRoot {
		return fmt.Errorf("the cgroup root %q is not an absolute, clean path", r.cgroupRoot)
	}
	if dirs := cgroupDirs(r.ownCgroup); len(dirs) > 0 {
		return fmt.Errorf("the cgroup %s exists (%s): it belongs to someone else", r.ownCgroup, dirs[0])
	}
	for _, dir := range []string{r.layout.shims(), r.layout.podLogs()} {
		if err := os.Mkdir(dir, 0o711); err != nil {
			return err
		}
	}
	if err := os.WriteFile(r.layout.config(), []byte(containerdConfig(r.layout, r.options)), 0o644); err != nil {
		return err
	}
	r.lock, err = claim(r.layout, owner{Pid: os.Getpid(), CgroupRoot: r.ownCgroup})
	return err
}

// connect waits until the CRI answers.
func (r *Runtime) connect(ctx context.Context) error {
	// With hundreds of containers, a restarted containerd needs a while: it runs
	// its shim once for each.
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	// The client would log each of the failures that are to be expected here.
	ctx = klog.NewContext(ctx, klog.Logger{})
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := r.ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-r.daemon.done:
			return r.withLog(fmt.Errorf("containerd ended: %s", r.daemon.ending))
		case <-ctx.Done():
			return r.withLog(fmt.Errorf("the CRI does not answer: %w (%w)", err, ctx.Err()))
		}
	}
}

// ping asks the CRI for its version, by the client from before if there is one: after
// a restart its connection comes back by itself, and callers may hold it.
func (r *Runtime) ping(ctx context.Context) error {
	if _, err := os.Stat(r.layout.socket()); err != nil {
		return err
	}
	if r.client == nil {
		client, err := criclient.NewRemoteRuntimeServiceBuilder().
			WithEndpoint(r.Endpoint()).WithConnectionTimeout(callTimeout).Build(ctx)
		if err != nil {
			return err
		}
		r.client = client
	}
	_, err := r.client.Version(ctx, "")
	return err
}

// withLog adds the end of containerd's log to err.
func (r *Runtime) withLog(err error) error {
	log, _ := os.ReadFile(r.layout.log())
	return fmt.Errorf("%w\nthe end of containerd's log:\n%s", err, tail(log))
}

// importImage loads the test image and waits until the CRI knows it, which it is
// told by an event of containerd.
func (r *Runtime) importImage(ctx context.Context) error {
	if err := r.Ctr(ctx, "images", "import", r.options.ImageArchive); err != nil {
		return fmt.Errorf("load the test image: %w", err)
	}
	images, err := criclient.NewRemoteImageServiceBuilder().
		WithEndpoint(r.Endpoint()).WithConnectionTimeout(callTimeout).Build(ctx)
	if err != nil {
		return fmt.Errorf("load the test image: %w", err)
	}
	defer func() { _ = images.Close(ctx) }()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return poll(ctx, 5*time.Millisecond, func() error {
		status, err := images.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: Image}, false)
		if err == nil && status.GetImage() == nil {
			err = errors.New("the CRI does not know it")
		}
		if err != nil {
			return fmt.Errorf("load the test image: %w", err)
		}
		return nil
	})
}

// Ctr runs containerd's own command-line client in the namespace of the CRI.
func (r *Runtime) Ctr(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(r.binDir, "ctr"),
		append([]string{"--address", r.layout.socket(), "--namespace", "k8s.io"}, args...)...)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ctr %s: %w\n%s", args[0], err, tail(output))
	}
	return nil
}

// Endpoint returns the URL of the CRI socket, unix://...
func (r *Runtime) Endpoint() string { return r.layout.endpoint() }

// Dir returns the private directory.
func (r *Runtime) Dir() string { return r.layout.dir }

// BinDir returns the folder with containerd, ctr, runc and crictl.
func (r *Runtime) BinDir() string { return r.binDir }

// LogFile returns the path of containerd's log. It is gone after Close.
func (r *Runtime) LogFile() string { return r.layout.log() }

// CgroupRoot returns the cgroup above kubepods: the kubelet's --cgroup-root.
func (r *Runtime) CgroupRoot() string { return r.cgroupRoot }

// Client returns a CRI client of the runtime. It reconnects by itself after a
// restart and is closed by Close.
func (r *Runtime) Client() criapi.RuntimeService { return r.client }

// Pid returns containerd's process ID, 0 while it is not running.
func (r *Runtime) Pid() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.daemon == nil || r.daemon.ended() {
		return 0
	}
	return r.daemon.process.Pid
}

// Stop ends containerd the way systemd would, and Kill with SIGKILL. The containers
// live on in either case, as they do on a node. Both may be called when containerd
// is not running.
func (r *Runtime) Stop() { r.end((*daemon).stop) }

// Kill ends containerd at once; see [Runtime.Stop].
func (r *Runtime) Kill() { r.end((*daemon).kill) }

func (r *Runtime) end(how func(*daemon)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.daemon != nil && !r.daemon.ended() {
		how(r.daemon)
	}
}

// Restart starts containerd again, stopping it first when it is running, and waits
// until the CRI answers.
func (r *Runtime) Restart(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errors.New("restart the runtime: it is closed")
	}
	if !r.daemon.ended() {
		r.daemon.stop()
	}
	// containerd leaves its socket behind, which would look like a new one.
	if err := os.RemoveAll(r.layout.socket()); err != nil {
		return err
	}
	d, err := startDaemon(r.layout, r.binDir, r.options.Log)
	if err != nil {
		return fmt.Errorf("restart the runtime: %w", err)
	}
	r.daemon = d
	if err := r.connect(ctx); err != nil {
		return fmt.Errorf("restart the runtime: %w", err)
	}
	return nil
}

// Close ends the runtime and removes every trace of it: containers, daemons,
// cgroups, mounts and files. Calling it again does nothing, unless it failed before.
func (r *Runtime) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	// Not the context of a test, which may be over.
	ctx := context.Background()
	if r.client != nil {
		_ = r.client.Close(ctx)
	}
	if r.daemon != nil && !r.daemon.ended() {
		r.daemon.kill()
	}
	if err := removeRemains(ctx, r.layout, r.ownCgroup); err != nil {
		return fmt.Errorf("close the runtime in %s: %w", r.layout.dir, err)
	}
	r.lock.Close()
	r.closed = true
	return nil
}

// Leftovers tells what there is of the runtime at the moment: processes, cgroups,
// mounts and its directory, a line each. After Close there should be nothing.
func (r *Runtime) Leftovers() []string { return remains(r.layout, r.ownCgroup) }
