package sim

import (
	"fmt"
	"math"
	"slices"
)

// never is the end of an operation of which nobody knows when, or whether, it took effect.
const never = math.MaxInt64

// op is one operation on a register: when its caller asked and was answered, in ticks of one counter, and the value written or read. Each value
// is written once at most; the register's first value counts as written before everything.
type op struct {
	write      bool
	value      string
	start, end int64
}

func (o op) String() string {
	verb, end := "read", fmt.Sprint(o.end)
	if o.write {
		verb = "wrote"
	}
	if o.end == never {
		end = "never answered"
	}
	return fmt.Sprintf("%s %q [%d, %s]", verb, o.value, o.start, end)
}

// cluster is a write and the reads that saw its value. Its zone runs from the first end of any of them to the last start of any; when the end is
// first, the register must have held the value throughout, and otherwise it need have held it only for a moment in between.
type cluster struct {
	value     string
	write     op
	first     int64 // end
	last      int64 // start
	lastRead  op
	firstDone op
}

func (c cluster) forward() bool { return c.first < c.last }

// linearizable says whether one order of all operations, each at a moment between its start and its end, explains what was read; the error names
// two that contradict each other. For registers whose values are written once this is decided by the zones alone: no read ends before its write
// begins, no two forward zones overlap, and no backward zone lies inside a forward one (Gibbons and Korach, "Testing Shared Memories", SIAM
// Journal on Computing 26(4), 1997, theorem 4.1). A write whose answer never came counts only if it was read.
func linearizable(initial string, ops []op) error {
	clusters, err := zones(initial, ops)
	if err != nil {
		return err
	}
	slices.SortFunc(clusters, func(a, b cluster) int { return int(min(a.first, a.last) - min(b.first, b.last)) })
	var open cluster // the forward zone that reaches furthest
	for _, c := range clusters {
		from, to := min(c.first, c.last), max(c.first, c.last)
		overlap := open.forward() && from < open.last
		switch {
		case overlap && c.forward():
			return fmt.Errorf("%q and %q were both held at once: %v, then %v; %v, then %v",
				open.value, c.value, open.firstDone, open.lastRead, c.firstDone, c.lastRead)
		case overlap && to < open.last:
			return fmt.Errorf("%q was held from %v to %v, and %q was written and seen in between: %v", open.value, open.firstDone, open.lastRead, c.value, c.write)
		case c.forward():
			open = c
		}
	}
	return nil
}

// zones groups operations by value.
func zones(initial string, ops []op) ([]cluster, error) {
	begin := op{write: true, value: initial, start: -1, end: -1}
	by := map[string]*cluster{initial: {value: initial, write: begin, first: -1, last: -1, firstDone: begin, lastRead: begin}}
	for _, o := range ops {
		if !o.write {
			continue
		}
		if by[o.value] != nil {
			return nil, fmt.Errorf("%q was written twice", o.value)
		}
		by[o.value] = &cluster{value: o.value, write: o, first: o.end, last: o.start, firstDone: o, lastRead: o}
	}
	read := map[string]bool{initial: true}
	for _, o := range ops {
		if o.write {
			continue
		}
		c := by[o.value]
		switch {
		case c == nil:
			return nil, fmt.Errorf("%v, which nobody wrote", o)
		case o.end < c.write.start:
			return nil, fmt.Errorf("%v before it was written: %v", o, c.write)
		}
		read[o.value] = true
		if o.end < c.first {
			c.first, c.firstDone = o.end, o
		}
		if o.start > c.last {
			c.last, c.lastRead = o.start, o
		}
	}
	var out []cluster
	for v, c := range by {
		if c.write.end != never || read[v] {
			out = append(out, *c)
		}
	}
	return out, nil
}
