package gpu

import (
	"context"
	"runtime"

	"berth/fleet"
	"berth/fleet/wire"
)

// None is the inventory of a machine without cards.
type None struct{ Note string }

// Measure implements agent.Inventory.
func (n None) Measure(context.Context) (fleet.Inventory, error) {
	return fleet.Inventory{Source: "none", Note: n.Note, CPUs: runtime.NumCPU(), Memory: hostMemory()}, nil
}

// Free implements agent.Inventory.
func (None) Free(context.Context, []fleet.Claim) (bool, error) { return true, nil }

// Load implements agent.Inventory.
func (None) Load(context.Context) []wire.GPULoad { return nil }
