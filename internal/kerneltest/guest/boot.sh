#!/bin/busybox sh
# First process of a machine that has a Debian of its own on its disk: loads what the disk and the
# network need, and goes on there with init. With the parameter kerneltest.hello it says so and switches
# the machine off: that is to find out whether a host can run it at all.
fail() {
	echo "kerneltest: the machine can't start: $1"
	/bin/busybox poweroff -f
}
/bin/busybox mkdir -p /dev /proc /root
/bin/busybox mount -t devtmpfs dev /dev || fail "no devtmpfs"
/bin/busybox mount -t proc proc /proc || fail "no proc"
while read -r module; do
	/bin/busybox insmod "/modules/$module" || fail "module $module"
done </modules/order
if /bin/busybox grep -q kerneltest.hello /proc/cmdline; then
	echo "kerneltest: hello"
	/bin/busybox poweroff -f
fi
/bin/busybox mount -t ext4 /dev/vda /root || fail "no disk"
/bin/busybox umount /proc
/bin/busybox mount -o move /dev /root/dev
exec /bin/busybox switch_root /root /sbin/init
