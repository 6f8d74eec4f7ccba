package status

import (
	"slices"
	"testing"

	"berth/fleet"
	"berth/fleet/wire"
)

// The accounting identity, recounted card by card in another way than the package counts: each card asks the whole fleet who holds it.
func TestAccountingIdentityOnRandomFleets(t *testing.T) {
	r := seeded(t)
	for range 2000 {
		in := randomInput(r)
		s := Summarize(in)
		total := 0
		for _, row := range s.GPUs {
			total += row.Total
			if row.Total != row.Used+row.Free+row.Unhealthy+row.Withheld {
				t.Fatalf("the row does not add up: %+v", row)
			}
			if want := recount(in, row.Class); row != want {
				t.Fatalf("counted %+v, recounted %+v", row, want)
			}
		}
		if cards := everyCard(in); total != cards {
			t.Fatalf("%d cards are counted, nodes report %d", total, cards)
		}
		checkFabrics(t, in, s)
		checkFree(t, in, s)
	}
}

func recount(in Input, class string) wire.ClassCounts {
	row := wire.ClassCounts{Class: class}
	for _, n := range in.Nodes {
		for _, g := range n.Inventory.GPUs {
			if n.Class(g) != class {
				continue
			}
			row.Total++
			closed := n.Unreachable || n.Admin == fleet.Cordoned || n.Admin == fleet.Draining
			if holders(in, n, g.UUID) > 0 || g.Foreign {
				row.Used++
			} else if g.Health == fleet.Unhealthy || g.Health == fleet.HealthUnknown {
				row.Unhealthy++
			} else if closed {
				row.Withheld++
			} else {
				row.Free++
			}
		}
	}
	return row
}

func holders(in Input, n *fleet.Node, uuid string) int {
	count := 0
	for _, r := range in.Replicas {
		for _, s := range r.Shards {
			for _, c := range s.Claims {
				if s.Node == n.Name && !s.Released && c.GPU == uuid {
					count++
				}
			}
		}
	}
	for _, u := range n.Unmanaged {
		if slices.Contains(u.GPUs, uuid) {
			count++
		}
	}
	return count
}

func everyCard(in Input) int {
	n := 0
	for _, node := range in.Nodes {
		n += len(node.Inventory.GPUs)
	}
	return n
}

func checkFabrics(t *testing.T, in Input, s wire.Status) {
	t.Helper()
	nodes := 0
	for _, f := range s.Fabrics {
		nodes += f.Nodes
		whole := 0
		for _, n := range in.Nodes {
			same := f.Fabric == nil && n.Fabric() == "" || f.Fabric != nil && n.Fabric() == *f.Fabric
			if same && recountWhole(in, n) {
				whole++
			}
		}
		block := whole
		if f.Fabric == nil {
			block = min(whole, 1)
		}
		if f.FreeNodes != whole || f.LargestFreeBlock != block {
			t.Fatalf("fabric row %+v, recounted %d whole nodes", f, whole)
		}
	}
	if nodes != s.Nodes.Total || s.Nodes.Total != s.Nodes.Ready+s.Nodes.Cordoned+s.Nodes.Draining+s.Nodes.Unreachable {
		t.Fatalf("the fabrics have %d nodes; counts by state %+v", nodes, s.Nodes)
	}
}

func recountWhole(in Input, n *fleet.Node) bool {
	for _, g := range n.Inventory.GPUs {
		if g.Foreign || g.Health != fleet.Healthy || holders(in, n, g.UUID) > 0 {
			return false
		}
	}
	return len(n.Inventory.GPUs) > 0 && !n.Unreachable && n.Admin == fleet.Schedulable
}

// The list of nodes and the summary say the same number of free cards.
func checkFree(t *testing.T, in Input, s wire.Status) {
	t.Helper()
	inRows, inList := 0, 0
	for _, row := range s.GPUs {
		inRows += row.Free
	}
	for _, n := range Nodes(in) {
		inList += n.GPUsFree
	}
	if inRows != inList {
		t.Fatalf("the summary has %d free cards, the list of nodes %d", inRows, inList)
	}
}

// C20, C21, C23: counts are per card and class; an inventory replaces the one before, and a claim on a card that is gone counts nothing.
func TestCardsByClass(t *testing.T) {
	n5 := node("n5", "fb", h100, 2)
	n5.Inventory.GPUs = append(n5.Inventory.GPUs, gpu("n5", l40s, 2), gpu("n5", l40s, 3))
	sick := node("n1", "fa", h100, 8)
	sick.Inventory.GPUs[3].Health = fleet.Unhealthy
	sliced := node("n1", "fa", h100, 8)
	before := []*fleet.Replica{replica("r-1", "m", sliced, 0, 1), replica("r-2", "m", sliced, 1, 1)}
	sliced.Inventory.GPUs = sliced.Inventory.GPUs[1:]
	for i := range 7 {
		sliced.Inventory.GPUs = append(sliced.Inventory.GPUs, gpu("n1", mig, 8+i))
	}
	cordoned := node("n1", "fa", h100, 8)
	cordoned.Admin = fleet.Cordoned
	shared := node("n1", "fa", l40s, 2)
	half := replica("r-1", "m", shared, 0, 1)
	half.Shards[0].Claims[0].Share = fleet.GiB
	other := replica("r-2", "m", shared, 0, 1)
	other.Shards[0].Claims[0].Share = fleet.GiB

	for name, c := range map[string]struct {
		node     *fleet.Node
		replicas []*fleet.Replica
		want     []wire.ClassCounts
	}{
		"two classes on one node": {n5, []*fleet.Replica{replica("r-1", "m", n5, 0, 2)},
			[]wire.ClassCounts{{Class: h100, Total: 2, Used: 2}, {Class: l40s, Total: 2, Free: 2}}},
		"an unhealthy card is not free": {sick, nil, []wire.ClassCounts{{Class: h100, Total: 8, Free: 7, Unhealthy: 1}}},
		"an unhealthy card in use is used": {sick, []*fleet.Replica{replica("r-1", "m", sick, 3, 1)},
			[]wire.ClassCounts{{Class: h100, Total: 8, Used: 1, Free: 7}}},
		"a card became slices": {sliced, before,
			[]wire.ClassCounts{{Class: mig, Total: 7, Free: 7}, {Class: h100, Total: 7, Used: 1, Free: 6}}},
		"a used card of a cordoned node stays used": {cordoned, []*fleet.Replica{replica("r-1", "m", cordoned, 0, 3)},
			[]wire.ClassCounts{{Class: h100, Total: 8, Used: 3, Withheld: 5}}},
		"a shared card counts once": {shared, []*fleet.Replica{half, other}, []wire.ClassCounts{{Class: l40s, Total: 2, Used: 1, Free: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			in := healthy()
			in.with(c.node)
			in.Replicas = c.replicas
			got := Summarize(in).GPUs
			slices.SortFunc(c.want, func(a, b wire.ClassCounts) int { return slices.Compare([]byte(a.Class), []byte(b.Class)) })
			if !slices.Equal(got, c.want) {
				t.Errorf("got %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// C25: eight free cards on eight nodes are no whole node, and blocks are counted in whole nodes.
func TestFabricsCountWholeNodes(t *testing.T) {
	in := healthy()
	for _, name := range []string{"n1", "n2", "n3"} {
		n := node(name, "fa", h100, 8)
		in.with(n)
		if name != "n3" {
			in.Replicas = append(in.Replicas, replica("r-"+name, "m", n, 0, 7))
		}
	}
	in.with(node("u1", "", h100, 8), node("u2", "", h100, 8), node("c1", "", h100, 0))
	fa := "fa"
	got := Summarize(in).Fabrics
	want := []wire.FabricCounts{{Fabric: &fa, Nodes: 3, FreeNodes: 1, LargestFreeBlock: 1}, {Nodes: 3, FreeNodes: 2, LargestFreeBlock: 1}}
	if len(got) != 2 || *got[0].Fabric != fa || got[1] != want[1] {
		t.Fatalf("got %+v", got)
	}
	if got[0].Fabric = &fa; got[0] != want[0] {
		t.Errorf("got %+v, want %+v", got[0], want[0])
	}
}
