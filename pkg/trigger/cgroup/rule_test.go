package cgroup

import (
	"path"
	"strings"
	"testing"
)

// roleOf plays the walk from the root to the directory at rel.
func roleOf(rel string) role {
	n := &node{role: roleRoot}
	for _, name := range strings.Split(rel, "/") {
		child := &node{parent: n, rel: path.Join(n.rel, name), depth: n.depth + 1}
		child.role, child.ref = classify(n, child.rel)
		if child.role == roleContainer {
			child.depth = 0
		}
		if child.role == roleNone {
			return roleNone
		}
		n = child
	}
	return n.role
}

func TestRoles(t *testing.T) {
	var (
		id, id2 = fakeID(1), fakeID(2)
		uid     = fakeUID(1)
		uid_    = strings.ReplaceAll(uid, "-", "_")
	)
	tests := []struct {
		rel  string
		want role
	}{
		{"kubepods", roleKubepods},
		{"kubepods/besteffort", roleKubepods},
		{"kubepods/besteffort/other", roleNone},
		{"kubepods/besteffort/pod" + uid, rolePod},
		{"kubepods/besteffort/pod" + uid + "/other", roleNone},
		{"kubepods/besteffort/pod" + uid + "/" + id, roleContainer},
		{"kubepods/besteffort/pod" + uid + "/crio-conmon-" + id, roleNone},
		{"kubepods/besteffort/pod" + uid + "/" + id + "/init.scope", roleNone},
		{"kubepods/besteffort/pod" + uid + "/" + id + "/kubelet", roleNone}, // kind in a pod: not of this runtime
		{"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uid_ + ".slice/cri-containerd-" + id + ".scope", roleContainer},
		{"kubelet.slice/kubelet-kubepods.slice", roleKubepods},
		{"kubelet/kubepods/pod" + uid, rolePod},
		{"my/own/parent/kubepods/pod" + uid + "/" + id, roleContainer},

		{"system.slice", roleCandidate},
		{"system.slice/containerd.service", roleCandidate},
		{"system.slice/containerd.service/kubepods-pod" + uid_ + ".slice:cri-containerd:" + id, roleContainer},
		{"system.slice/batch.service/job", roleNone},
		{"system.slice/k3s.service/kubepods/pod" + uid, rolePod},
		{"system.slice/cri-containerd-" + id + ".scope", roleContainer},
		{"system.slice/run-user-0.mount", roleNone},
		{"system.slice/system-getty.slice", roleCandidate},
		{"init.scope", roleNone},
		{"cgroup.procs", roleNone},
		{"user.slice/user-1000.slice/session-3.scope", roleNone},
		{"user.slice/user-1000.slice/user@1000.service/user.slice/docker-" + id + ".scope", roleContainer},
		{"user.slice/user-1000.slice/user@1000.service/app.slice/k3s-rootless.service/kubepods/pod" + uid, rolePod},
		{"a/b/c/d/e", roleCandidate},
		{"a/b/c/d/e/f", roleNone},
		{"a/b/c/d/e/" + id, roleContainer},

		{"docker/" + id, roleContainer},
		{"docker/" + id + "/init.scope", roleNone},
		{"docker/" + id + "/kubelet", roleCandidate},
		{"docker/" + id + "/kubelet/kubepods/burstable/pod" + uid + "/" + id2, roleContainer},
		{"system.slice/docker-" + id + ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice", roleKubepods},
		{"system.slice/docker-" + id + ".scope/system.slice/cri-containerd-" + id2 + ".scope", roleContainer},
		{"k8s.io/" + id + "/system.slice", roleNone},
	}
	for _, tt := range tests {
		if got := roleOf(tt.rel); got != tt.want {
			t.Errorf("%s: role %d, want %d", tt.rel, got, tt.want)
		}
	}
}
