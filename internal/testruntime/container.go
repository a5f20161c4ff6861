package testruntime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ContainerSpec says what container to make. The zero value is a container that
// sleeps for ever.
type ContainerSpec struct {
	Name string // empty: main
	// Attempt counts the containers of one name in a pod. A pod cannot have the
	// same name and attempt twice.
	Attempt uint32
	// Args tell the test program what to do; see the package testimage. Empty means
	// to sleep.
	Args []string
	// Command replaces the test program: [Tiny], say.
	Command []string
	// MemoryLimit is in bytes; 0 means none.
	MemoryLimit int64
	// Labels and Annotations come on top of the kubelet's own.
	Labels, Annotations map[string]string
}

// Container is a container in a pod.
type Container struct {
	ID, Name string
	Attempt  uint32

	pod     *Pod
	logPath string
}

// CreateContainer makes a container and does not start it.
func (p *Pod) CreateContainer(ctx context.Context, spec ContainerSpec) (*Container, error) {
	if spec.Name == "" {
		spec.Name = "main"
	}
	config := p.containerConfig(spec)
	logPath := filepath.Join(p.config.LogDirectory, config.LogPath)
	// The log of a removed container of the same name; the runtime appends.
	if err := os.RemoveAll(logPath); err != nil {
		return nil, err
	}
	id, err := p.runtime.client.CreateContainer(ctx, p.SandboxID, config, p.config)
	if err != nil {
		return nil, fmt.Errorf("create container %s in pod %s: %w", spec.Name, p, err)
	}
	return &Container{
		ID: id, Name: spec.Name, Attempt: spec.Attempt,
		pod: p, logPath: logPath,
	}, nil
}

// RunContainer makes a container and starts it.
func (p *Pod) RunContainer(ctx context.Context, spec ContainerSpec) (*Container, error) {
	c, err := p.CreateContainer(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := c.Start(ctx); err != nil {
		return nil, errors.Join(err, c.Remove(ctx))
	}
	return c, nil
}

func (p *Pod) containerConfig(spec ContainerSpec) *runtimeapi.ContainerConfig {
	args := spec.Args
	if len(args) == 0 && len(spec.Command) == 0 {
		args = []string{"sleep"}
	}
	labels := maps.Clone(p.config.Labels)
	labels[labelContainerName] = spec.Name
	maps.Copy(labels, spec.Labels)
	attempt := strconv.FormatUint(uint64(spec.Attempt), 10)
	annotations := map[string]string{
		"io.kubernetes.container.hash":                     "0",
		"io.kubernetes.container.restartCount":             attempt,
		"io.kubernetes.container.terminationMessagePath":   "/dev/termination-log",
		"io.kubernetes.container.terminationMessagePolicy": "File",
		"io.kubernetes.pod.terminationGracePeriod":         "30",
	}
	maps.Copy(annotations, spec.Annotations)
	return &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: spec.Name, Attempt: spec.Attempt},
		Image:       &runtimeapi.ImageSpec{Image: Image},
		Command:     spec.Command,
		Args:        args,
		Labels:      labels,
		Annotations: annotations,
		LogPath:     spec.Name + "_" + attempt + ".log",
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: spec.MemoryLimit},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				NamespaceOptions: p.namespaces(),
			},
		},
	}
}

// Start starts a container that was created.
func (c *Container) Start(ctx context.Context) error {
	return c.wrap("start", c.pod.runtime.client.StartContainer(ctx, c.ID))
}

// Stop asks the container to end (SIGTERM), kills it when it still runs after the
// grace period, and waits for its end. Whole seconds count; 0 kills at once.
func (c *Container) Stop(ctx context.Context, grace time.Duration) error {
	return c.wrap("stop", c.pod.runtime.client.StopContainer(ctx, c.ID, int64(grace/time.Second)))
}

// Remove removes the container, killing it if it runs.
func (c *Container) Remove(ctx context.Context) error {
	return c.wrap("remove", c.pod.runtime.client.RemoveContainer(ctx, c.ID))
}

// Exec runs a command in the container and returns what it wrote to standard
// output. A command that ends with another code than 0 is an error.
func (c *Container) Exec(ctx context.Context, command ...string) (stdout string, err error) {
	out, errOut, err := c.pod.runtime.client.ExecSync(ctx, c.ID, command, callTimeout)
	if err != nil {
		return string(out), fmt.Errorf("exec %q in container %s of pod %s: %w (%s)", command, c.Name, c.pod, err, bytes.TrimSpace(errOut))
	}
	return string(out), nil
}

// Status returns what the CRI says of the container.
func (c *Container) Status(ctx context.Context) (*runtimeapi.ContainerStatus, error) {
	resp, err := c.pod.runtime.client.ContainerStatus(ctx, c.ID, false)
	if err != nil {
		return nil, c.wrap("status of", err)
	}
	return resp.GetStatus(), nil
}

// HostPid returns the ID of the container's first process in the host's PID
// namespace.
func (c *Container) HostPid(ctx context.Context) (int, error) {
	resp, err := c.pod.runtime.client.ContainerStatus(ctx, c.ID, true)
	if err != nil {
		return 0, c.wrap("status of", err)
	}
	// containerd tells it only in the verbose part.
	var info struct {
		Pid int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(resp.GetInfo()["info"]), &info); err != nil {
		return 0, c.wrap("pid of", err)
	}
	if info.Pid == 0 {
		return 0, c.wrap("pid of", errors.New("it is not running"))
	}
	return info.Pid, nil
}

// Wait polls until the container has exited and returns its last status, which
// holds the exit code.
func (c *Container) Wait(ctx context.Context) (*runtimeapi.ContainerStatus, error) {
	for {
		status, err := c.Status(ctx)
		if err != nil {
			return nil, err
		}
		if status.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED {
			return status, nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return nil, c.wrap("wait for", fmt.Errorf("its state is %s: %w", status.GetState(), err))
		}
	}
}

// Ready waits until the container has printed the line "ready". The test program
// does when it sleeps and handles signals as it was told to; a runtime calls it
// running a little earlier.
func (c *Container) Ready(ctx context.Context) error {
	for {
		out, err := c.Output()
		if err != nil {
			return c.wrap("output of", err)
		}
		if strings.Contains("\n"+out, "\nready\n") {
			return nil
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return c.wrap("wait for", fmt.Errorf("it is not ready: %w", err))
		}
	}
}

// CgroupPath returns the container's cgroup.
func (c *Container) CgroupPath() string { return c.pod.CgroupPath() + "/" + c.ID }

// Pod returns the pod that the container is in.
func (c *Container) Pod() *Pod { return c.pod }

// Output returns what the container has written to standard output and error so
// far. It can still be read when the container is removed, until another one takes
// its name and attempt.
func (c *Container) Output() (string, error) {
	data, err := os.ReadFile(c.logPath)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		// The CRI's log format: time, stream, P for a part of a line or F for its
		// end, text.
		fields := strings.SplitN(line, " ", 4)
		if len(fields) < 4 {
			return "", fmt.Errorf("log of container %s: unexpected line %q", c.Name, line)
		}
		text := fields[3]
		if fields[2] == "P" {
			text = strings.TrimSuffix(text, "\n")
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

func (c *Container) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s container %s of pod %s: %w", what, c.Name, c.pod, err)
}
