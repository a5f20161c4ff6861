//go:build !linux

package runner

import "errors"

func (*facts) fill() {}

func freeDisk(string) (int64, error) { return 0, errors.New("not known on this system") }
