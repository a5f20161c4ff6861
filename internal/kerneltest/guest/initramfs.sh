#!/bin/busybox sh
# First process of the machine, from the initramfs: loads what the disk needs and goes on there.
set -e
fail() {
	echo "kerneltest: the machine can't start: $1"
	/bin/busybox poweroff -f
}
/bin/busybox mkdir -p /dev /proc /root
/bin/busybox mount -t devtmpfs dev /dev || fail "no devtmpfs"
while read -r module; do
	/bin/busybox insmod "/modules/$module" || fail "module $module"
done </modules/order
/bin/busybox mount -t ext4 /dev/vda /root || fail "no disk"
/bin/busybox umount /dev
exec /bin/busybox switch_root /root /init
