package peer

import (
	"testing"

	"berth/fleet"
)

func TestChunksKeepEveryItemInOrderAndAWakeWithItsPlacement(t *testing.T) {
	var items []fleet.PlanItem
	for i := range 3 * planItems {
		item := fleet.PlanItem{Place: &fleet.PlaceItem{Generation: uint64(i)}}
		if i == planItems-1 || i == planItems {
			item = fleet.PlanItem{Wake: &fleet.WakeItem{Model: "m"}}
		}
		items = append(items, item)
	}
	var joined []fleet.PlanItem
	for _, c := range chunks(items) {
		if c[len(c)-1].Wake != nil {
			t.Error("a wake stands at the end of an entry")
		}
		joined = append(joined, c...)
	}
	if len(joined) != len(items) {
		t.Fatalf("%d items of %d", len(joined), len(items))
	}
	for i := range items {
		if joined[i] != items[i] {
			t.Fatalf("item %d is another", i)
		}
	}
	if len(chunks(nil)) != 0 {
		t.Error("an empty plan makes an entry")
	}
}
