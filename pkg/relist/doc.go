// Package relist lists what the container runtime holds and tells what changed.
package relist
