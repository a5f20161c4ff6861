//go:build linux

package bpf

// The compiler is pinned: another version makes other objects, and the check that
// the objects belong to the source compares them byte by byte. generate.sh
// installs it on Debian.
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip llvm-strip-19 -tags linux -type record -type kind -type state -type workload -type cgroup_key probe c/probe.c -- -Wall -Wextra -Werror
