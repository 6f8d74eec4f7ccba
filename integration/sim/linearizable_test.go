package sim

import (
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"
)

// never is the end of an operation of which nobody knows when, or whether, it took effect.
const never = math.MaxInt64

// op is one operation on a register: when its caller asked and was answered, in ticks of one counter, and the value written or read. Each value
// is written once at most.
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

// register is the model: a read gives what was written last.
func register(initial string) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return initial },
		Step: func(state, input, _ any) (bool, any) {
			o := input.(op)
			if o.write {
				return true, o.value
			}
			return o.value == state, state
		},
	}
}

// linearizable says whether one order of all operations, each at a moment between its start and its end, explains what was read. The error names
// the operation at which every order breaks off.
func linearizable(initial string, ops []op) error {
	ops = settled(ops)
	var history []porcupine.Operation
	for i, o := range ops {
		history = append(history, porcupine.Operation{ClientId: i, Input: o, Call: o.start, Return: o.end})
	}
	model := register(initial)
	verdict, info := porcupine.CheckOperationsVerbose(model, history, 0)
	if verdict == porcupine.Ok {
		return nil
	}
	return fmt.Errorf("no order of %d operations explains what was read; %s", len(ops), breaks(ops, info))
}

// settled takes the writes without an answer that nobody read out of a history: they may never have happened. One that was read had happened when
// the first of its readers was answered.
func settled(ops []op) []op {
	seen := map[string]int64{}
	for _, o := range ops {
		if first, ok := seen[o.value]; !o.write && (!ok || o.end < first) {
			seen[o.value] = o.end
		}
	}
	var out []op
	for _, o := range ops {
		if o.write && o.end == never {
			first, read := seen[o.value]
			if !read {
				continue
			}
			o.end = max(o.start, first) // a read that ended before is wrong whatever this says
		}
		out = append(out, o)
	}
	return out
}

// breaks tells how far the longest order came, and what could not come next.
func breaks(ops []op, info porcupine.LinearizationInfo) string {
	var longest []int
	for _, partition := range info.PartialLinearizations() {
		for _, order := range partition {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	var left []op
	for i, o := range ops {
		if !slices.Contains(longest, i) {
			left = append(left, o)
		}
	}
	slices.SortFunc(left, func(a, b op) int { return int(a.end - b.end) })
	last := "nothing"
	if len(longest) > 0 {
		last = ops[longest[len(longest)-1]].String()
	}
	return fmt.Sprintf("after %s comes %v", last, left[:min(3, len(left))])
}
