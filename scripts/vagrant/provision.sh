#!/usr/bin/env bash
# Makes a Debian or Ubuntu host, or a machine of Vagrant's, one with containerd, runc, crictl, and
# hybrid-pleg as a service. It may be run again at any time, and changes only what is not so yet.
#
#   --program FILE   hybrid-pleg (default: the one beside this script, else bin/hybrid-pleg of the checkout)
#   --crictl FILE    crictl, where the distribution has no package of it (default: the one beside this script)
#   --user NAME      a user who may watch without being root
#   --demo           what hybrid-pleg-demo needs: busybox, and an image made of it
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/service.sh"

program='' crictl='' user='' demo=''
while [ $# -gt 0 ]; do
	case $1 in
	--program | --crictl | --user)
		[ $# -ge 2 ] || fail "$1 needs a value"
		case $1 in
		--program) program=$2 ;;
		--crictl) crictl=$2 ;;
		--user) user=$2 ;;
		esac
		shift 2
		;;
	--demo)
		demo=yes
		shift
		;;
	-h | --help)
		sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"
		exit
		;;
	*) fail "what is $1? See --help" ;;
	esac
done
need_root
command -v apt-get >/dev/null || fail "this host is neither Debian nor Ubuntu (no apt-get)"
for file in "$here/hybrid-pleg" "$here/../../bin/hybrid-pleg"; do
	if [ -z "$program" ] && [ -f "$file" ]; then program=$file; fi
done
[ -n "$program" ] || fail "there is no hybrid-pleg to install: build it with 'make build', or name one with --program"
if [ -z "$crictl" ] && [ -f "$here/crictl" ]; then crictl=$here/crictl; fi

# have_package NAME: can the distribution install it?
have_package() { grep -q 'Candidate: [^(]' <<<"$(apt-cache policy "$1" 2>/dev/null)"; }

packages=()
# Docker's packages have a containerd as well.
command -v containerd >/dev/null || packages+=(containerd)
command -v runc >/dev/null || packages+=(runc)
if [ -n "$demo" ] && ! [ -x /bin/busybox ]; then packages+=(busybox-static); fi
if [ ${#packages[@]} -gt 0 ] || ! command -v crictl >/dev/null; then
	export DEBIAN_FRONTEND=noninteractive
	if [ ${#packages[@]} -gt 0 ]; then
		say "fetching the lists of packages"
		apt-get -qq -o DPkg::Lock::Timeout=300 update
	fi
	if ! command -v crictl >/dev/null && have_package cri-tools; then packages+=(cri-tools); fi
	if [ ${#packages[@]} -gt 0 ]; then
		say "installing ${packages[*]}"
		apt-get -qq -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "${packages[@]}" >/dev/null
	fi
fi

endpoint=unix:///run/containerd/containerd.sock
# With Docker's packages the part that Kubernetes uses is off.
if grep -q 'disabled_plugins = .*cri' <<<"$(containerd config dump 2>/dev/null)"; then
	fail "containerd runs without CRI (disabled_plugins, as Docker's package sets it): take \"cri\" out of it in /etc/containerd/config.toml, and restart containerd"
fi
systemctl --quiet enable --now containerd

# A newer crictl of the build replaces an older one of the build, not the distribution's.
if ! [ -x /usr/bin/crictl ]; then
	if [ -n "$crictl" ]; then
		install_program crictl "$crictl"
	elif ! command -v crictl >/dev/null; then
		say "no crictl: neither a package of this distribution, nor given with --crictl (scripts/vagrant/build makes one)"
	fi
fi
if ! [ -e /etc/crictl.yaml ]; then
	say "writing /etc/crictl.yaml"
	printf '%s\n' "runtime-endpoint: $endpoint" "image-endpoint: $endpoint" >/etc/crictl.yaml
fi

install_service "$program" "$endpoint" "$user"

if [ -n "$demo" ]; then
	put "$here/demo" /usr/local/bin/hybrid-pleg-demo 755
	"$here/demo-image"
	say "to see events: hybrid-pleg-demo"
fi
