# What provision.sh and provision-crio.sh share: it installs hybrid-pleg as a service. To be read by
# a script (".") that has set "here" to the folder with the files.
# shellcheck disable=SC2154

say() { echo "provision: $*"; }
fail() {
	echo "provision: $*" >&2
	exit 1
}

# need_root ends a script that can't install anything.
need_root() {
	[ "$(id -u)" = 0 ] || fail "run this as root (sudo)"
	[ -d /run/systemd/system ] || fail "this host does not run systemd, and a service is what is to be installed"
}

# put SOURCE TARGET MODE installs a file if it differs, and counts what it changed.
changed=0
put() {
	if cmp -s "$1" "$2" && [ "$(stat -c %a "$2")" = "$3" ]; then
		return
	fi
	say "installing $2"
	# Beside it first: a program that runs can't be written to.
	install -D -m "$3" "$1" "$2.new"
	mv -f "$2.new" "$2"
	changed=$((changed + 1))
}

# install_program NAME FILE installs a program of the build, unless FILE is "-".
install_program() {
	[ "$2" = - ] || put "$2" "/usr/local/bin/$1" 755
}

# install_service PROGRAM ENDPOINT USER makes the service; USER may be empty.
install_service() {
	[ -f "$1" ] || fail "$1 is not there: build it with 'make build', or name it with --program"
	"$1" version >/dev/null || fail "$1 does not run here; is it for this processor?"
	getent group hybrid-pleg >/dev/null || groupadd --system hybrid-pleg
	if [ -n "$3" ]; then
		id "$3" >/dev/null || fail "there is no user $3"
		usermod -a -G hybrid-pleg "$3"
	fi
	install_program hybrid-pleg "$1"
	put "$here/hybrid-pleg.service" /etc/systemd/system/hybrid-pleg.service 644
	if ! [ -e /etc/hybrid-pleg.yaml ]; then
		say "writing /etc/hybrid-pleg.yaml"
		printf '%s\n' "# Flags of 'hybrid-pleg run' by their names." "runtime-endpoint: $2" \
			"state-dir: /var/lib/hybrid-pleg" "output: none" >/etc/hybrid-pleg.yaml
		changed=$((changed + 1))
	fi
	systemctl daemon-reload
	systemctl --quiet enable hybrid-pleg
	if [ "$changed" -gt 0 ] || ! systemctl --quiet is-active hybrid-pleg; then
		systemctl restart hybrid-pleg
	fi
	# It is active as soon as it runs; ready is when it has listed all pods.
	for _ in $(seq 30); do
		if hybrid-pleg pods --connect-timeout 10s --output json >/dev/null 2>&1; then
			say "hybrid-pleg runs: $(systemctl show --property=MainPID hybrid-pleg), $(hybrid-pleg version | head -1)"
			return
		fi
		systemctl --quiet is-failed hybrid-pleg && break
		sleep 1
	done
	journalctl --no-pager --lines=30 --unit=hybrid-pleg >&2 || true
	fail "hybrid-pleg does not come up; its log is above"
}
