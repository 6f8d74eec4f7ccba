package gpu

import (
	"cmp"
	"slices"

	"berth/fleet"
	"berth/fleet/wire"
)

// Card is everything that was measured of one card. A nil pointer is what could not be measured.
type Card struct {
	UUID        string   `json:"uuid"`
	Index       int      `json:"index"`
	Name        string   `json:"name"`
	MemoryTotal int64    `json:"memory_total_bytes"`
	MemoryUsed  *int64   `json:"memory_used_bytes,omitempty"`
	Utilization *float64 `json:"utilization,omitempty"` // 0 to 1
	Celsius     *float64 `json:"celsius,omitempty"`
	Watts       *float64 `json:"watts,omitempty"`
	Processes   []int    `json:"processes,omitempty"` // pids that hold memory of the card
	// ProcessesKnown says that the card's process list could be read; without it nobody can say that the card is empty.
	ProcessesKnown bool   `json:"processes_known"`
	Fault          string `json:"fault,omitempty"`  // why the card must not be given work; empty: none was found
	Fabric         string `json:"fabric,omitempty"` // clusterUUID.clique of a multi-node NVLink domain
	// XID is the newest driver error seen that takes the card out; 0: none. Checked says that the driver itself has judged the card just now; where it
	// cannot, an error is all that is ever heard of a sick card, once.
	XID     uint64 `json:"xid,omitempty"`
	Checked bool   `json:"checked,omitempty"`
	// Unsure is what of the card's health could not be asked.
	Unsure string `json:"unsure,omitempty"`
}

// Reading is one measurement of the whole machine.
type Reading struct {
	Version int    `json:"version"` // of this form: 1
	Driver  string `json:"driver,omitempty"`
	Note    string `json:"note,omitempty"` // why there are no cards
	Cards   []Card `json:"cards"`
}

// readingVersion is the form that this release writes and reads.
const readingVersion = 1

// inventory turns a reading into what peers are told. ours says whether a process belongs to an engine that Berth started.
func (r Reading) inventory(source string, ours func(pid int) bool) fleet.Inventory {
	inv := fleet.Inventory{Source: source, Note: r.Note, Driver: r.Driver}
	fabrics := map[string]bool{}
	for _, c := range r.Cards {
		g := fleet.GPU{UUID: c.UUID, Index: c.Index, Name: c.Name, Class: ClassOf(c.Name, c.MemoryTotal), Memory: fleet.Bytes(c.MemoryTotal), Health: fleet.Healthy}
		switch {
		case c.Fault != "":
			g.Health, g.Reason = fleet.Unhealthy, c.Fault
		case c.Unsure != "":
			g.Health, g.Reason = fleet.HealthUnknown, c.Unsure
		}
		g.Foreign = slices.ContainsFunc(c.Processes, func(pid int) bool { return !ours(pid) })
		inv.GPUs = append(inv.GPUs, g)
		fabrics[c.Fabric] = true
	}
	if len(fabrics) == 1 { // cards in several cliques, or some in none, are no one domain
		for f := range fabrics {
			inv.Fabric = f
		}
	}
	slices.SortFunc(inv.GPUs, func(a, b fleet.GPU) int { return cmp.Compare(a.Index, b.Index) })
	return inv
}

func (r Reading) loads() []wire.GPULoad {
	var out []wire.GPULoad
	for _, c := range r.Cards {
		out = append(out, wire.GPULoad{UUID: c.UUID, UsedBytes: c.MemoryUsed, Utilization: c.Utilization, Celsius: c.Celsius, Watts: c.Watts})
	}
	return out
}

func (r Reading) card(uuid string) (Card, bool) {
	for _, c := range r.Cards {
		if c.UUID == uuid {
			return c, true
		}
	}
	return Card{}, false
}
