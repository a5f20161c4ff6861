#!/usr/bin/env bash
# Makes a Fedora machine one with CRI-O, crictl, and hybrid-pleg as a service. It may be run again at any time.
#
#   --program FILE   hybrid-pleg (default: the one beside this script)
#   --user NAME      a user who may watch without being root
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/service.sh"

program=$here/hybrid-pleg user=''
while [ $# -gt 0 ]; do
	case $1 in
	--program | --user)
		[ $# -ge 2 ] || fail "$1 needs a value"
		case $1 in
		--program) program=$2 ;;
		--user) user=$2 ;;
		esac
		shift 2
		;;
	*) fail "what is $1? It takes --program and --user" ;;
	esac
done
need_root
command -v dnf >/dev/null || fail "this host is not a Fedora (no dnf); Debian and Ubuntu have no package of CRI-O"
if ! command -v crio >/dev/null; then
	# Fedora's packages have their version in their name since Fedora 41.
	newest=$(dnf --quiet repoquery --queryformat '%{name}\n' 'cri-o1.*' | grep -E '^cri-o1\.[0-9]+$' | sort -uV | tail -1)
	[ -n "$newest" ] || fail "this Fedora has no package cri-o1.*"
	say "installing $newest, ${newest/cri-o/cri-tools}"
	dnf --quiet --assumeyes install "$newest" "${newest/cri-o/cri-tools}"
fi
# Without this it has no stream of events.
if ! [ -e /etc/crio/crio.conf.d/50-events.conf ]; then
	mkdir -p /etc/crio/crio.conf.d
	printf '%s\n' '[crio.runtime]' 'enable_pod_events = true' >/etc/crio/crio.conf.d/50-events.conf
	systemctl try-restart crio
fi
systemctl --quiet enable --now crio
install_service "$program" unix:///run/crio/crio.sock "$user"
