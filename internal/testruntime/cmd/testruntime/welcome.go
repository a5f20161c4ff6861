package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/hybrid-pleg/hybrid-pleg/internal/testruntime"
)

// welcome writes examples and settings for crictl and ctr into the runtime's
// directory and tells how to use it.
func welcome(ctx context.Context, r *testruntime.Runtime, stdout io.Writer) error {
	version, err := r.Client().Version(ctx, "")
	if err != nil {
		return err
	}
	replace := strings.NewReplacer(
		"{version}", version.RuntimeName+" "+version.RuntimeVersion,
		"{endpoint}", r.Endpoint(), "{socket}", strings.TrimPrefix(r.Endpoint(), "unix://"),
		"{cgroup}", r.CgroupRoot(), "{log}", r.LogFile(), "{bin}", r.BinDir(),
		"{image}", testruntime.Image, "{program}", testruntime.Program,
		"{pod}", filepath.Join(r.Dir(), "pod.json"), "{container}", filepath.Join(r.Dir(), "container.json"),
		"{env}", filepath.Join(r.Dir(), "env"), "{crictl}", filepath.Join(r.Dir(), "crictl.yaml"),
		"{parent}", strings.TrimSuffix(r.CgroupRoot(), "/")+"/kubepods/besteffort/pod"+exampleUID,
	)
	for name, content := range map[string]string{
		"pod.json": examplePod, "container.json": exampleContainer,
		"env": exampleEnv, "crictl.yaml": exampleCrictl,
	} {
		if err := os.WriteFile(filepath.Join(r.Dir(), name), []byte(replace.Replace(content)), 0o644); err != nil {
			return err
		}
	}
	_, err = fmt.Fprint(stdout, replace.Replace(text))
	return err
}

const text = `A container runtime is up: {version}. Ctrl-C ends it and removes every trace of it.

  endpoint     {endpoint}
  cgroup root  {cgroup}
  log          {log}
  image        {image}, the only one: {program} plays a part, say "exit 3 2s"

In another terminal, as root:

  . {env}
  crictl run --no-pull {container} {pod}
  crictl ps -a
  crictl pods
  crictl rmp -fa
  ctr tasks ls
  hybrid-pleg run --runtime-endpoint {endpoint}

`

const exampleEnv = `export PATH={bin}:$PATH
export CONTAINER_RUNTIME_ENDPOINT={endpoint}
export CRI_CONFIG_FILE={crictl}
export CONTAINERD_ADDRESS={socket} CONTAINERD_NAMESPACE=k8s.io
`

const exampleCrictl = `runtime-endpoint: {endpoint}
image-endpoint: {endpoint}
timeout: 60
`

const exampleUID = "11111111-2222-4333-8444-555555555555"

const examplePod = `{
  "metadata": {"name": "example", "namespace": "default", "uid": "` + exampleUID + `"},
  "labels": {
    "io.kubernetes.pod.name": "example",
    "io.kubernetes.pod.namespace": "default",
    "io.kubernetes.pod.uid": "` + exampleUID + `"
  },
  "linux": {
    "cgroup_parent": "{parent}",
    "security_context": {"namespace_options": {"network": 2, "pid": 1}}
  }
}
`

const exampleContainer = `{
  "metadata": {"name": "main"},
  "image": {"image": "{image}"},
  "args": ["exit", "3", "20s"],
  "labels": {
    "io.kubernetes.container.name": "main",
    "io.kubernetes.pod.name": "example",
    "io.kubernetes.pod.namespace": "default",
    "io.kubernetes.pod.uid": "` + exampleUID + `"
  },
  "linux": {"security_context": {"namespace_options": {"network": 2, "pid": 1}}}
}
`
