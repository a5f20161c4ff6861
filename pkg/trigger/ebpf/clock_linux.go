package ebpf

import (
	"time"

	"golang.org/x/sys/unix"
)

// fromKtime turns the probe's time stamp, CLOCK_MONOTONIC in nanoseconds, into a time.
// Read anew for each record, a step of the wall clock never gets in.
func fromKtime(ktime uint64) time.Time {
	now := time.Now()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return now
	}
	return backdate(now, uint64(ts.Nano()), ktime)
}
