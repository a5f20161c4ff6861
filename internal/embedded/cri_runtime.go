package embedded

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RuntimeName is what the runtime calls itself in its Version.
const RuntimeName = "hybrid-pleg-embedded"

// Version is the CRI's.
func (r *Runtime) Version(ctx context.Context, _ *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return call(ctx, r, "Version", nil, func([]mangle) (*runtimeapi.VersionResponse, error) {
		return &runtimeapi.VersionResponse{
			Version:           "0.1.0", // the kubelet's word for the version of the interface
			RuntimeName:       RuntimeName,
			RuntimeVersion:    r.version,
			RuntimeApiVersion: "v1",
		}, nil
	})
}

// Status is the CRI's: all is ready.
func (r *Runtime) Status(ctx context.Context, req *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return call(ctx, r, "Status", nil, func([]mangle) (*runtimeapi.StatusResponse, error) {
		resp := &runtimeapi.StatusResponse{
			Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
				{Type: runtimeapi.RuntimeReady, Status: true},
				{Type: runtimeapi.NetworkReady, Status: true},
			}},
			RuntimeHandlers: []*runtimeapi.RuntimeHandler{{}},
		}
		if req.Verbose {
			sandboxes, containers, running := r.Counts()
			resp.Info = info(map[string]any{"sandboxes": sandboxes, "containers": containers, "running": running})
		}
		return resp, nil
	})
}

// RuntimeConfig is the CRI's: cgroups are managed as with the cgroupfs driver.
func (r *Runtime) RuntimeConfig(ctx context.Context, _ *runtimeapi.RuntimeConfigRequest) (*runtimeapi.RuntimeConfigResponse, error) {
	return call(ctx, r, "RuntimeConfig", nil, func([]mangle) (*runtimeapi.RuntimeConfigResponse, error) {
		return &runtimeapi.RuntimeConfigResponse{
			Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: runtimeapi.CgroupDriver_CGROUPFS},
		}, nil
	})
}

// UpdateRuntimeConfig is the CRI's; there is nothing to configure.
func (r *Runtime) UpdateRuntimeConfig(ctx context.Context, _ *runtimeapi.UpdateRuntimeConfigRequest) (*runtimeapi.UpdateRuntimeConfigResponse, error) {
	return call(ctx, r, "UpdateRuntimeConfig", nil, func([]mangle) (*runtimeapi.UpdateRuntimeConfigResponse, error) {
		return &runtimeapi.UpdateRuntimeConfigResponse{}, nil
	})
}
