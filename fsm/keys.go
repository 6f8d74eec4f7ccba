package fsm

import (
	"fmt"
	"strings"

	"berth/fleet"
)

// separator parts the fields of a key. No name can hold it: control characters are refused wherever a name enters the state, or cannot be
// looked up, so a prefix walk never reaches a neighbour.
const separator = "\x00"

func key(parts ...string) string { return strings.Join(parts, separator) }

// specKey orders the generations of a model by number.
func specKey(model string, generation uint64) string {
	return key(model, fmt.Sprintf("%020d", generation))
}

// generationOf returns the generation in a key that specKey has made.
func generationOf(specKey string) uint64 {
	var generation uint64
	for _, digit := range specKey[strings.LastIndex(specKey, separator)+len(separator):] {
		generation = generation*10 + uint64(digit-'0')
	}
	return generation
}

func indexKey(i fleet.Index) string { return fmt.Sprintf("%020d.%020d", i.Epoch, i.N) }

// nameKey is a model's name or alias in the index of names: names that differ only in case share the part before the separator.
func nameKey(name string) string { return key(fold(name), name) }

// fold lowers ASCII letters alone. The full Unicode tables change between releases of Go, and two peers of different builds must never
// disagree on whether two names clash.
func fold(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// feedTable is the feed of the routers' table; ordersFeed that of one agent's orders.
const feedTable = "table"

func ordersFeed(node string) string { return key("orders", node) }
