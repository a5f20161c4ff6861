#!/bin/busybox sh
# First process on the disk: makes the machine look like a host with the cgroup layout asked
# for, runs the suites asked for, tells the results through the virtio port, and switches
# the machine off. The kernel's command line says what to do: kerneltest.layout=v2|v1|hybrid
# kerneltest.suites=NAME,NAME.
export PATH=/bin HOME=/ TMPDIR=/tmp

/bin/busybox mount -t proc proc /proc
/bin/busybox --install -s /bin
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs run /run
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t securityfs security /sys/kernel/security
mount -t bpf bpf /sys/fs/bpf
mount -t tracefs tracing /sys/kernel/tracing
ip link set lo up
hostname kerneltest
# Nothing here reads it: what is written to the console is for when a machine does not come up.
dmesg -n 4

parameter() {
	sed -n "s/.*kerneltest\.$1=\([^ ]*\).*/\1/p" /proc/cmdline
}
layout=$(parameter layout)

case $layout in
v2)
	mount -t cgroup2 cgroup2 /sys/fs/cgroup
	# As systemd does: a runtime may use these below.
	for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
		echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control
	done
	;;
v1 | hybrid)
	mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
	for controller in $(awk '!/^#/ && $4 == 1 { print $1 }' /proc/cgroups); do
		mkdir "/sys/fs/cgroup/$controller"
		mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/$controller"
	done
	mkdir /sys/fs/cgroup/systemd
	mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
	if [ "$layout" = hybrid ]; then
		mkdir /sys/fs/cgroup/unified
		mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified
	fi
	;;
esac

for port in /sys/class/virtio-ports/*; do
	mknod "/dev/${port##*/}" c $(tr : ' ' <"$port/dev") 2>/dev/null
	exec >"/dev/${port##*/}" 2>&1
done

echo "@@ boot $(uname -r) $(cut -d' ' -f1 /proc/uptime)"
for suite in $(parameter suites | tr , ' '); do
	echo "@@ begin $suite"
	sh "/suites/$suite"
	echo "@@ end $suite $?"
done
echo "@@ done"
exec >/dev/console 2>&1
sync
poweroff -f
