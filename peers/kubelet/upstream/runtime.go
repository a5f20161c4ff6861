package upstream

import (
	"context"
	"fmt"
	"net/http"
	"time"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"go.opentelemetry.io/otel/trace/noop"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	internalapi "k8s.io/cri-api/pkg/apis"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"
	"k8s.io/kubernetes/pkg/kubelet/logs"
	"k8s.io/kubernetes/pkg/kubelet/prober/results"
)

// NewRuntime makes the kubelet's container runtime manager over a CRI runtime. It
// asks that for its version once, with ctx.
//
// The generators call three methods of it, which list and read statuses and need
// nothing but the CRI. What else the manager can do is left without what it would
// need for that (probes, images, cgroups, pods' specs) and must not be called.
//
// dir is a directory for the manager's checkpoint files, empty as long as no pod is
// run by it. It must stay while the manager is used.
func NewRuntime(ctx context.Context, cri internalapi.RuntimeService, images internalapi.ImageManagerService, dir string) (kubecontainer.Runtime, error) {
	times := noTimes{}
	manager, _, err := kuberuntime.NewKubeGenericRuntimeManager(
		ctx,
		kubecontainer.FilterEventRecorder(&record.FakeRecorder{}), // which discards
		results.NewManager(),
		results.NewManager(),
		results.NewManager(),
		dir,
		dir,
		&cadvisorapi.MachineInfo{},
		noPods{},
		defaultMaxPods,
		kubecontainer.RealOS{},
		nil, // runtime helper
		http.DefaultClient,
		flowcontrol.NewBackOff(time.Second, time.Minute),
		false, nil, // image pulls at a time
		0, 0, // image pull rate
		string(kubeletconfig.NeverVerifyPreloadedImages),
		nil,
		"", "", // credential plugins
		nil,
		true, metav1.Duration{Duration: 100 * time.Millisecond}, // CFS quota
		nil,
		cri,
		images,
		cm.NewStubContainerManager(),
		logs.NewStubContainerLogManager(),
		nil, // runtime classes
		false,
		"",
		func() v1.ResourceList { return nil },
		nil,
		kubeletconfig.NoneMemoryReservationPolicy,
		times,
		noop.NewTracerProvider(),
		nil, nil, // service account tokens
		times,
	)
	if err != nil {
		return nil, fmt.Errorf("the kubelet's runtime manager: %w", err)
	}
	return manager, nil
}

// defaultMaxPods is the kubelet's default.
const defaultMaxPods = 110

// noPods stands for the kubelet's pod workers: none has a pod.
type noPods struct{}

func (noPods) IsPodTerminationRequested(types.UID) bool { return false }
func (noPods) ShouldPodContentBeRemoved(types.UID) bool { return false }
func (noPods) ShouldPodRuntimeBeRemoved(types.UID) bool { return false }

// noTimes stands for the kubelet's tracker of start-up times.
type noTimes struct{}

func (noTimes) RecordImageStartedPulling(types.UID)              {}
func (noTimes) RecordImageFinishedPulling(types.UID)             {}
func (noTimes) RecordInitContainerStarted(types.UID, time.Time)  {}
func (noTimes) RecordInitContainerFinished(types.UID, time.Time) {}
