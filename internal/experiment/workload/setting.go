package workload

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Label is on every pod that an experiment makes; its value names the run.
const Label = "hybrid-pleg.io/experiment"

// Namespace is that of all pods of experiments.
const Namespace = "hybrid-pleg-experiment"

// CgroupRoot is the cgroup above the pods of experiments on a runtime that is not
// the experiment's own. It is not the kubelet's, which removes from its own what it
// does not know.
const CgroupRoot = "/hybrid-pleg-experiment"

// The labels that the kubelet gives what it makes.
const (
	labelPodName       = "io.kubernetes.pod.name"
	labelPodNamespace  = "io.kubernetes.pod.namespace"
	labelPodUID        = "io.kubernetes.pod.uid"
	labelContainerName = "io.kubernetes.container.name"
)

// Setting says how pods and containers are made on a runtime.
type Setting struct {
	// Run names the run, in labels.
	Run string
	// Image holds the programs below.
	Image string
	// Lives is the command and the arguments of a container that ends after d by
	// itself, Stays those of one that runs until it is killed.
	Lives func(d time.Duration) (command, args []string)
	Stays func() (command, args []string)
	// CgroupParent is where a pod's cgroup is; nil leaves it to the runtime.
	CgroupParent func(uid string) string
	// RemoveCgroup removes that of a pod when the pod is gone, as the kubelet does;
	// nil where there is none to remove.
	RemoveCgroup func(parent string) error
	// Parallel is how many pods are made at a time while nothing is measured.
	Parallel int
}

// CgroupfsParent is a CgroupParent below a root, as the kubelet with the driver
// cgroupfs lays pods out.
func CgroupfsParent(root string) func(string) string {
	return func(uid string) string {
		return strings.TrimSuffix(root, "/") + "/kubepods/besteffort/pod" + uid
	}
}

// SystemdParent is a CgroupParent for runtimes that leave cgroups to systemd, which
// also removes them.
func SystemdParent(uid string) string {
	return "kubepods-besteffort-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
}

// FromTemplate makes Lives out of a command in which {lifetime} stands for the
// lifetime as 1.5s, {seconds} for 1.5.
func FromTemplate(command []string) func(time.Duration) (command, args []string) {
	return func(d time.Duration) ([]string, []string) {
		fill := strings.NewReplacer("{lifetime}", d.String(), "{seconds}", strconv.FormatFloat(d.Seconds(), 'f', -1, 64))
		out := make([]string, len(command))
		for i, w := range command {
			out[i] = fill.Replace(w)
		}
		return out, nil
	}
}

// forEver is longer than any experiment.
const forEver = 1000 * time.Hour

// StaysByTemplate makes Stays out of the same command.
func StaysByTemplate(command []string) func() (command, args []string) {
	lives := FromTemplate(command)
	return func() ([]string, []string) { return lives(forEver) }
}

func (s *Setting) podConfig(name string) *runtimeapi.PodSandboxConfig {
	uid := newUID()
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: Namespace, Uid: uid},
		Labels: map[string]string{
			labelPodName: name, labelPodNamespace: Namespace, labelPodUID: uid, Label: s.Run,
		},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: namespaces()},
		},
	}
	if s.CgroupParent != nil {
		config.Linux.CgroupParent = s.CgroupParent(uid)
	}
	return config
}

func (s *Setting) containerConfig(pod *runtimeapi.PodSandboxConfig, name string, command, args []string) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: s.Image, UserSpecifiedImage: s.Image},
		Command:  command,
		Args:     args,
		Labels: map[string]string{
			labelPodName: pod.Metadata.Name, labelPodNamespace: Namespace, labelPodUID: pod.Metadata.Uid,
			labelContainerName: name, Label: s.Run,
		},
		Annotations: map[string]string{"io.kubernetes.container.restartCount": "0"},
		Linux: &runtimeapi.LinuxContainerConfig{
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: namespaces()},
		},
	}
}

// namespaces share the host's network, so that no CNI plugin takes part, and nothing
// else.
func namespaces() *runtimeapi.NamespaceOption {
	return &runtimeapi.NamespaceOption{
		Network: runtimeapi.NamespaceMode_NODE,
		Pid:     runtimeapi.NamespaceMode_CONTAINER,
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
