package main

import (
	"slices"
	"strings"
)

// node is a machine and what is left of it; the baselines share it.
type node struct {
	*machine
	cpu, memory int
	free        []int // of each GPU
	fragment    float64
}

func newNodes(machines []machine) []*node {
	out := make([]*node, len(machines))
	for i := range machines {
		m := &machines[i]
		n := &node{machine: m, cpu: m.cpu, memory: m.memory, free: make([]int, m.gpus)}
		for g := range n.free {
			n.free[g] = card
		}
		out[i] = n
	}
	return out
}

func (n *node) total() int {
	sum := 0
	for _, f := range n.free {
		sum += f
	}
	return sum
}

// allows says whether the task takes the machine's model of GPU.
func (m *machine) allows(spec string) bool {
	return spec == "" || slices.Contains(strings.Split(spec, "|"), m.model)
}

// room counts the GPUs that have so much left.
func (n *node) room(milli int) int {
	c := 0
	for _, f := range n.free {
		if f >= milli {
			c++
		}
	}
	return c
}

func (n *node) fits(t *task) bool {
	return n.cpu >= t.cpu && n.memory >= t.memory && (t.gpus == 0 || n.room(t.milli) >= t.gpus && n.allows(t.spec))
}

// take claims; gpu is the card of a part, and -1 takes whole ones from the first.
func (n *node) take(t *task, gpu int) {
	n.cpu -= t.cpu
	n.memory -= t.memory
	if gpu >= 0 {
		n.free[gpu] -= t.milli
		return
	}
	left := t.gpus
	for g := range n.free {
		if left > 0 && n.free[g] >= t.milli {
			n.free[g] -= t.milli
			left--
		}
	}
}
