#!/bin/sh
# Makes the probe's objects and their Go code anew from bpf/c.
#
#   bpf/generate.sh            compile; as root on Debian or Ubuntu, first install the
#                              compiler if it is missing
#   bpf/generate.sh --check    compile into a temporary directory and compare with what is
#                              checked in; says which files differ and fails if any does
#
# The objects are the same byte for byte wherever they are made, as long as the compiler is
# the same one: clang 19, which Debian 12 and later and Ubuntu 24.04 and later have. A
# newer one makes objects that work as well but are not the same.
set -eu

clang=clang-19
strip=llvm-strip-19
packages="clang-19 llvm-19"
generated="probe_bpfel.go probe_bpfel.o probe_bpfeb.go probe_bpfeb.o"

cd "$(dirname "$0")"

if ! command -v $clang >/dev/null || ! command -v $strip >/dev/null; then
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "generate.sh: $clang and $strip are needed: apt-get install --no-install-recommends $packages" >&2
		exit 1
	fi
	echo "generate.sh: installing $packages" >&2
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends $packages >/dev/null
fi

case "${1-}" in
"")
	go generate .
	;;
--check)
	fresh=$(mktemp -d)
	trap 'rm -rf "$fresh"' EXIT
	# The same command as go generate, with another output directory.
	command=$(sed -n 's/^\/\/go:generate //p' gen.go)
	GOPACKAGE=bpf sh -c "$(echo "$command" | sed "s|bpf2go |bpf2go -output-dir '$fresh' |")"
	status=0
	for file in $generated; do
		cmp "$file" "$fresh/$file" >&2 || status=1
	done
	if [ $status -ne 0 ]; then
		echo "generate.sh: the generated files do not belong to the source: run bpf/generate.sh and commit them" >&2
	fi
	exit $status
	;;
*)
	echo "usage: $0 [--check]" >&2
	exit 2
	;;
esac
