package embedded

import (
	"strconv"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// QoS is a pod's quality of service class; it decides where its cgroup is.
type QoS string

// The classes, as they appear in the paths of cgroups. Guaranteed appears in
// none.
const (
	Guaranteed QoS = ""
	Burstable  QoS = "burstable"
	BestEffort QoS = "besteffort"
)

// The labels and annotations that the kubelet gives what it makes.
const (
	labelPodName       = "io.kubernetes.pod.name"
	labelPodNamespace  = "io.kubernetes.pod.namespace"
	labelPodUID        = "io.kubernetes.pod.uid"
	labelContainerName = "io.kubernetes.container.name"
	annotationRestarts = "io.kubernetes.container.restartCount"
	annotationSource   = "kubernetes.io/config.source"
	annotationSeen     = "kubernetes.io/config.seen"
)

// PodConfig is the configuration with which the kubelet, using the cgroupfs
// driver, would run a pod's sandbox. The caller may change it further, and give it
// the pod's own labels and annotations.
func PodConfig(namespace, name, uid string, attempt uint32, qos QoS) *runtimeapi.PodSandboxConfig {
	parent := "/kubepods/pod" + uid
	if qos != Guaranteed {
		parent = "/kubepods/" + string(qos) + "/pod" + uid
	}
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Namespace: namespace, Name: name, Uid: uid, Attempt: attempt},
		Hostname: name,
		Labels: map[string]string{
			labelPodNamespace: namespace,
			labelPodName:      name,
			labelPodUID:       uid,
		},
		Annotations: map[string]string{
			annotationSource: "api",
			annotationSeen:   time.Now().Format(time.RFC3339Nano),
		},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: parent,
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
			},
		},
	}
}

// ContainerConfig is the configuration with which the kubelet would make a
// container of the pod. The command is for [ParseCommand]. The caller may change
// it further.
func ContainerConfig(pod *runtimeapi.PodSandboxConfig, name string, attempt uint32, image string, command ...string) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt},
		Image:    &runtimeapi.ImageSpec{Image: image, UserSpecifiedImage: image},
		Command:  command,
		Labels: map[string]string{
			labelPodNamespace:  pod.GetMetadata().GetNamespace(),
			labelPodName:       pod.GetMetadata().GetName(),
			labelPodUID:        pod.GetMetadata().GetUid(),
			labelContainerName: name,
		},
		Annotations: map[string]string{annotationRestarts: strconv.FormatUint(uint64(attempt), 10)},
	}
}
