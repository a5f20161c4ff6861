package testruntime

import (
	"fmt"
	"path/filepath"
	"strings"
)

// layout is where a runtime keeps what, below its private directory.
type layout struct{ dir string }

func (l layout) socket() string   { return filepath.Join(l.dir, "cri.sock") }
func (l layout) config() string   { return filepath.Join(l.dir, "config.toml") }
func (l layout) log() string      { return filepath.Join(l.dir, "containerd.log") }
func (l layout) podLogs() string  { return filepath.Join(l.dir, "logs") }
func (l layout) owner() string    { return filepath.Join(l.dir, "owner") }
func (l layout) shims() string    { return filepath.Join(l.dir, "s") }
func (l layout) endpoint() string { return "unix://" + l.socket() }

// maxSocketDir is containerd's limit for the folder of the shims' sockets: their
// names are 64 characters long, and a Unix socket's path has 108 at most.
const maxSocketDir = 42

func (l layout) check() error {
	if n := len(l.shims()); n > maxSocketDir {
		return fmt.Errorf("%s is too long by %d bytes for the sockets below it: use a shorter Options.Dir (or TMPDIR)",
			l.dir, n-maxSocketDir)
	}
	return nil
}

// containerdConfig returns the configuration of a containerd that keeps all it has
// below one directory: each path here would otherwise be one below /var/lib, /run
// or /opt.
func containerdConfig(l layout, o Options) string {
	level := o.LogLevel
	if level == "" {
		level = "info"
	}
	r := strings.NewReplacer("{dir}", l.dir, "{socket}", l.socket(), "{shims}", l.shims(), "{level}", level, "{image}", Image)
	return r.Replace(configTemplate) + o.ExtraConfig + "\n"
}

// restrict_oom_score_adj: without CAP_SYS_RESOURCE runc cannot lower the score and
// fails with "can't get final child's PID from pipe".
//
// no_sync: nothing here has to survive a crash of the machine, and bolt's syncing
// to disk costs more than all else when many containers are made at once.
//
// stats_collect_period: nobody asks for statistics here, and taking samples of them every
// second costs, with 300 containers, ten times what is to be measured.
const configTemplate = `version = 3
root = "{dir}/root"
state = "{dir}/state"
temp = "{dir}/tmp"
oom_score = 0
disabled_plugins = [
  "io.containerd.internal.v1.restart",
  "io.containerd.internal.v1.tracing",
  "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.erofs",
  "io.containerd.tracing.processor.v1.otlp",
]

[debug]
  level = "{level}"

[grpc]
  address = "{socket}"

[ttrpc]
  address = "{socket}.ttrpc"

[plugins."io.containerd.internal.v1.opt"]
  path = "{dir}/opt"

[plugins."io.containerd.metadata.v1.bolt"]
  no_sync = true

[plugins."io.containerd.nri.v1.nri"]
  disable = true

[plugins."io.containerd.shim.v1.manager"]
  socket_dir = "{shims}"

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  stats_collect_period = 86400
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{image}"

[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  stats_collect_period = "24h"
  restrict_oom_score_adj = true
  tolerate_missing_hugetlb_controller = true
  cdi_spec_dirs = []
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{dir}/cni/bin"]
    conf_dir = "{dir}/cni/conf"
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        Root = "{dir}/runc"
        SystemdCgroup = false

`
