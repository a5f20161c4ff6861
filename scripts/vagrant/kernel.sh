#!/usr/bin/env bash
# Has a Debian machine start with another of Debian's kernels, or with other parameters, from its next
# start on. For machines that are thrown away: it changes how the machine boots.
#
#   kernel.sh [--command-line "PARAMETERS"] [KERNEL]
#
# KERNEL is 5.10, 6.1, 6.12, or newest; without one the kernel stays.
set -euo pipefail
say() { echo "kernel: $*"; }
fail() {
	echo "kernel: $*" >&2
	exit 1
}

parameters='' kernel=''
while [ $# -gt 0 ]; do
	case $1 in
	--command-line)
		[ $# -ge 2 ] || fail "--command-line needs a value"
		parameters=$2
		shift 2
		;;
	-*) fail "what is $1? It takes --command-line and the name of a kernel" ;;
	*)
		kernel=$1
		shift
		;;
	esac
done
[ "$(id -u)" = 0 ] || fail "run this as root (sudo)"
command -v update-grub >/dev/null || fail "this machine does not start with GRUB as Debian sets it up"
arch=$(dpkg --print-architecture)
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -f "$keyring" ] || fail "Debian's keys are missing (package debian-archive-keyring): this is for Debian"

# The package that depends on the kernel, how its version begins, and the part of the archive it is in.
meta=linux-image-$arch
case $kernel in
"") ;;
5.10) begin=5.10. part="debian-security bullseye-security" ;;
6.1) begin=6.1. part="debian-security bookworm-security" ;;
6.12) begin=6.12. part="debian-security bookworm-security" meta=linux-image-6.12-$arch ;;
newest) begin='' part="debian trixie-backports" ;;
*) fail "there is no kernel $kernel; choose 5.10, 6.1, 6.12 or newest" ;;
esac

# shellcheck source=/dev/null
if [ "$kernel" = newest ] && (. /etc/os-release && [ "${VERSION_ID%%.*}" -lt 13 ]); then
	fail "Debian's newest kernel can't be installed on a Debian before 13: use a newer box (HYBRID_PLEG_BOX), or start it as a folder (HYBRID_PLEG_KERNEL)"
fi

default=
if [ -n "$kernel" ]; then
	# Beside the machine's own sources and lists, so that nothing else is ever upgraded from there.
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	mkdir -p "$dir/lists/partial"
	cat /etc/apt/sources.list >"$dir/sources.list" 2>/dev/null || true
	# The archive's other parts are where the machine has the main one.
	mirror=$(apt-get indextargets --format '$(SITE)' | sed -n 's|/debian/*$||p' | head -n 1)
	[ -n "$mirror" ] || fail "this machine's apt knows no mirror of Debian"
	echo "deb [signed-by=$keyring] $mirror/$part main" >>"$dir/sources.list"
	apt=(-qq -o "Dir::Etc::SourceList=$dir/sources.list" -o "Dir::State::Lists=$dir/lists" -o APT::Sandbox::User=root
		-o DPkg::Lock::Timeout=300 -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
	say "fetching the lists of packages, with ${part#* }"
	apt-get "${apt[@]}" -o APT::Update::Error-Mode=any update
	image=$(apt-cache "${apt[@]}" show "$meta" | awk -v begin="$begin" '
		/^Version: / { right = index($2, begin) == 1 }
		/^Depends: / && right && match($0, /linux-image-[^ ,]+/) { print substr($0, RSTART, RLENGTH); exit }')
	[ -n "$image" ] || fail "there is no kernel $kernel for $arch in ${part#* }"
	say "installing $image"
	DEBIAN_FRONTEND=noninteractive apt-get "${apt[@]}" -y --target-release "${part#* }" install --no-install-recommends "$image" >/dev/null
	release=${image#linux-image-}
	default="GRUB_DEFAULT='Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux $release'"
	say "the next start is with $release"
fi
settings=/etc/default/grub.d/hybrid-pleg.cfg
mkdir -p "$(dirname "$settings")"
[ -n "$default" ] || default=$(grep ^GRUB_DEFAULT= "$settings" 2>/dev/null || true)
line="GRUB_CMDLINE_LINUX=\"\$GRUB_CMDLINE_LINUX $parameters\""
[ -n "$parameters" ] || line=$(grep ^GRUB_CMDLINE_LINUX= "$settings" 2>/dev/null || true)
printf '%s\n' "$default" "$line" >"$settings"
update-grub 2>&1 | tail -1
