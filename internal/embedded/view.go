package embedded

import "google.golang.org/protobuf/proto"

// view is what the CRI shows of a container or a sandbox: the short message for
// lists and the full one. The messages are made anew for each state and never
// changed afterwards, so that a list is a copy of pointers and callers may keep
// what they got. The zero value shows nothing.
type view[L, F proto.Message] struct {
	list L
	full F
	real struct {
		list L
		full F
	}
	made   bool
	hidden bool
}

// visible says whether the CRI shows it at all.
func (v *view[L, F]) visible() bool { return v.made && !v.hidden }

// show replaces what is shown, and what was pretended.
func (v *view[L, F]) show(list L, full F) {
	v.made = true
	v.list, v.full = list, full
	v.real.list, v.real.full = list, full
}

// pretend shows something else until the next show or restore.
func (v *view[L, F]) pretend(change func(L, F)) {
	list, full := proto.CloneOf(v.real.list), proto.CloneOf(v.real.full)
	change(list, full)
	v.list, v.full = list, full
}

func (v *view[L, F]) restore() {
	v.list, v.full = v.real.list, v.real.full
}
