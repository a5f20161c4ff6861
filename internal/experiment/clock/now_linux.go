package clock

import "golang.org/x/sys/unix"

func now() int64 {
	var ts unix.Timespec
	// It fails only for a clock that does not exist.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}
