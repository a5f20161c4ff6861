package stats

import "math"

// MinBlocks is the number of blocks below which no bootstrap interval is given.
const MinBlocks = 8

// wantedBlocks is how many blocks a run is cut into where the correlation allows
// that: enough for a bootstrap, and each as long as can be.
const wantedBlocks = 40

// BlockLength returns how long a block of time must be in a run that lasts span,
// when what happens within correlation of each other is not independent. Both, and the
// result, are in the unit of the caller; the result is at least 1.
func BlockLength(span, correlation int64) int64 {
	return max(span/wantedBlocks, correlation, 1)
}

// Blocks cuts moments into blocks of the given length, and returns the block of
// each and the number of blocks. repeat[i] says in which repeat moment i was; a block
// never reaches over two of them. What is left at the end of a repeat and is shorter
// than half a block belongs to the block before.
func Blocks(at []int64, repeat []int, length int64) (block []int, blocks int) {
	type span struct{ first, last int64 }
	spans := map[int]*span{}
	var order []int
	for i, t := range at {
		s := spans[repeat[i]]
		if s == nil {
			s = &span{t, t}
			spans[repeat[i]] = s
			order = append(order, repeat[i])
		}
		s.first, s.last = min(s.first, t), max(s.last, t)
	}
	base := map[int]int{}
	count := map[int]int64{}
	for _, r := range order {
		base[r] = blocks
		lasted := spans[r].last - spans[r].first
		count[r] = max(1, int64(math.Round(float64(lasted)/float64(length))))
		blocks += int(count[r])
	}
	block = make([]int, len(at))
	for i, t := range at {
		r := repeat[i]
		block[i] = base[r] + int(min((t-spans[r].first)/length, count[r]-1))
	}
	return block, blocks
}
