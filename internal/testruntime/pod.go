package testruntime

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// QoS is a pod's quality of service class. It decides where the pod's cgroup is.
type QoS string

// The classes.
const (
	BestEffort QoS = ""
	Burstable  QoS = "burstable"
	Guaranteed QoS = "guaranteed"
)

// cgroup is what the kubelet puts between kubepods and the pod.
func (q QoS) cgroup() string {
	switch q {
	case BestEffort:
		return "besteffort"
	case Guaranteed:
		return "" // these pods are right below kubepods
	default:
		return string(q)
	}
}

// PIDMode says which PID namespace the containers of a pod are in.
type PIDMode int

const (
	// PIDContainer gives each container its own: what the kubelet asks for unless
	// the pod says otherwise.
	PIDContainer PIDMode = iota
	// PIDPod has all containers share the sandbox's: shareProcessNamespace.
	PIDPod
	// PIDNode has them share the host's: hostPID.
	PIDNode
)

func (m PIDMode) cri() runtimeapi.NamespaceMode {
	switch m {
	case PIDPod:
		return runtimeapi.NamespaceMode_POD
	case PIDNode:
		return runtimeapi.NamespaceMode_NODE
	default:
		return runtimeapi.NamespaceMode_CONTAINER
	}
}

// PodSpec says what pod to make. The zero value is fine.
type PodSpec struct {
	Namespace string // empty: default
	Name      string // empty: one made from the UID
	UID       string // empty: a random one
	// Attempt counts the pod's sandboxes, see [Pod.NewSandbox].
	Attempt uint32
	QoS     QoS
	PID     PIDMode
	// Labels and Annotations come on top of the kubelet's own.
	Labels, Annotations map[string]string
}

// Pod is a pod's sandbox, ready for containers.
type Pod struct {
	Namespace, Name, UID string
	// SandboxID is the CRI's ID of the sandbox.
	SandboxID string
	Attempt   uint32

	runtime *Runtime
	spec    PodSpec
	config  *runtimeapi.PodSandboxConfig
}

// Labels and annotations of the kubelet (pkg/kubelet/types and kuberuntime/labels.go).
const (
	labelPodName       = "io.kubernetes.pod.name"
	labelPodNamespace  = "io.kubernetes.pod.namespace"
	labelPodUID        = "io.kubernetes.pod.uid"
	labelContainerName = "io.kubernetes.container.name"
)

// RunPod makes a pod with a running sandbox and no containers.
func (r *Runtime) RunPod(ctx context.Context, spec PodSpec) (*Pod, error) {
	if spec.UID == "" {
		spec.UID = newUID()
	}
	if spec.Name == "" {
		spec.Name = "pod-" + spec.UID[:min(8, len(spec.UID))]
	}
	if spec.Namespace == "" {
		spec.Namespace = "default"
	}
	p := &Pod{
		Namespace: spec.Namespace, Name: spec.Name, UID: spec.UID, Attempt: spec.Attempt,
		runtime: r, spec: spec,
	}
	p.config = p.sandboxConfig()
	// The kubelet makes the folder; the runtime only writes to it.
	if err := os.MkdirAll(p.config.LogDirectory, 0o755); err != nil {
		return nil, err
	}
	id, err := r.client.RunPodSandbox(ctx, p.config, "")
	if err != nil {
		return nil, fmt.Errorf("run pod %s: %w", p, err)
	}
	p.SandboxID = id
	return p, nil
}

// NewSandbox makes the next sandbox of the same pod, as the kubelet does when a
// sandbox has died. The old one, p, stays as it is.
func (p *Pod) NewSandbox(ctx context.Context) (*Pod, error) {
	spec := p.spec
	spec.Attempt++
	return p.runtime.RunPod(ctx, spec)
}

// CgroupPath returns the pod's cgroup, which its containers' cgroups are in.
func (p *Pod) CgroupPath() string {
	return path.Join(p.runtime.cgroupRoot, "kubepods", p.spec.QoS.cgroup(), "pod"+p.UID)
}

// String returns namespace/name.
func (p *Pod) String() string { return p.Namespace + "/" + p.Name }

// Stop stops the sandbox and kills the containers in it. All remain in the
// runtime's lists.
func (p *Pod) Stop(ctx context.Context) error {
	if err := p.runtime.client.StopPodSandbox(ctx, p.SandboxID); err != nil {
		return fmt.Errorf("stop pod %s: %w", p, err)
	}
	return nil
}

// Remove stops the sandbox, removes it with its containers, and removes the pod's
// cgroup unless another sandbox of the pod is still using it.
func (p *Pod) Remove(ctx context.Context) error {
	if err := p.Stop(ctx); err != nil {
		return err
	}
	if err := p.runtime.client.RemovePodSandbox(ctx, p.SandboxID); err != nil {
		return fmt.Errorf("remove pod %s: %w", p, err)
	}
	if err := p.removeCgroup(ctx); err != nil {
		return fmt.Errorf("remove pod %s: %w", p, err)
	}
	return nil
}

// removeCgroup does what the kubelet does some seconds after a pod has ended.
func (p *Pod) removeCgroup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return poll(ctx, time.Millisecond, func() error {
		for _, dir := range cgroupDirs(p.CgroupPath()) {
			if hasChildCgroups(dir) {
				continue
			}
			err := removeCgroupDir(dir)
			// Busy: processes are leaving, or a container came in between.
			if err != nil && (!errors.Is(err, syscall.EBUSY) || !hasChildCgroups(dir)) {
				return err
			}
		}
		return nil
	})
}

func (p *Pod) sandboxConfig() *runtimeapi.PodSandboxConfig {
	labels := map[string]string{
		labelPodName:      p.Name,
		labelPodNamespace: p.Namespace,
		labelPodUID:       p.UID,
	}
	maps.Copy(labels, p.spec.Labels)
	annotations := map[string]string{
		"kubernetes.io/config.seen":   time.Now().Format(time.RFC3339Nano),
		"kubernetes.io/config.source": "api",
	}
	maps.Copy(annotations, p.spec.Annotations)
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: p.Name, Namespace: p.Namespace, Uid: p.UID, Attempt: p.Attempt,
		},
		LogDirectory: filepath.Join(p.runtime.layout.podLogs(), p.UID+"_"+strconv.Itoa(int(p.Attempt))),
		Labels:       labels,
		Annotations:  annotations,
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: p.CgroupPath(),
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: p.namespaces(),
			},
		},
	}
}

func (p *Pod) namespaces() *runtimeapi.NamespaceOption {
	return &runtimeapi.NamespaceOption{
		Network: runtimeapi.NamespaceMode_NODE,
		Pid:     p.spec.PID.cri(),
		Ipc:     runtimeapi.NamespaceMode_POD,
	}
}

// newUID returns a random UUID (version 4), as the API server would give a pod.
func newUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
