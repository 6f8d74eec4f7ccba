package screen_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/status"
	"berth/status/screen"
)

var rewrite = flag.Bool("rewrite", false, "write the golden screens anew; read the diff as an operator would")

// The screens of a fleet of 4 and of 200 nodes, made by the package that makes them for operators.
func TestGoldenScreens(t *testing.T) {
	for _, c := range []struct {
		name string
		doc  wire.Status
		o    screen.Options
	}{
		{"4-nodes-80x24", small(), screen.Options{}},
		{"200-nodes-80x24", large(), screen.Options{}},
		{"200-nodes-132x43", large(), screen.Options{Width: 132, Height: 43}},
		{"no-leader-80x24", leaderless(), screen.Options{}},
		{"empty-80x24", status.Summarize(frame()), screen.Options{}},
	} {
		got := strings.Join(screen.Render(c.doc, c.o), "\n") + "\n"
		file := filepath.Join("testdata", c.name+".txt")
		if *rewrite {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || string(want) != got {
			t.Errorf("%s (%v): run go test ./status/screen -rewrite and read the diff\n%s", file, err, got)
		}
	}
}

var ansi = regexp.MustCompile("\x1b\\[[0-9;]*m")

// No line is wider and no screen higher than asked for, whatever the fleet; and colours only paint what the words say already.
func TestNothingIsWiderOrHigherThanTheScreen(t *testing.T) {
	r := seeded(t)
	for range 300 {
		doc := wild(r)
		for _, o := range []screen.Options{{}, {Width: 100, Height: 30}, {Width: 200, Height: 60}} {
			lines := screen.Render(doc, o)
			if most := max(o.Height, 24); len(lines) >= most {
				t.Fatalf("%d lines on a screen of %d\n%s", len(lines), most, strings.Join(lines, "\n"))
			}
			for _, line := range lines {
				if n := utf8.RuneCountInString(line); n > max(o.Width, 80) || strings.ContainsAny(line, "\n\x1b\a") {
					t.Fatalf("%d columns: %q", n, line)
				}
			}
			o.Colour = true
			if coloured := screen.Render(doc, o); ansi.ReplaceAllString(strings.Join(coloured, "\n"), "") != strings.Join(lines, "\n") {
				t.Fatalf("the colours change the words:\n%s", strings.Join(coloured, "\n"))
			}
		}
	}
}

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// wild is a document with lists and names of any length.
func wild(r *rand.Rand) wire.Status {
	s := wire.Status{Cluster: text(r), Leader: text(r), Peer: text(r), KnowledgeAgeMS: r.Int64N(99999) - 1, ObservedAgeMS: r.Int64N(9999) - 1}
	if r.IntN(2) == 0 {
		brake := text(r)
		s.Brake, s.Frozen = &brake, &fleet.Freeze{Reason: text(r), By: text(r)}
	}
	for range r.IntN(20) {
		c := wire.ClassCounts{Class: text(r), Used: r.IntN(2) * r.IntN(50_000), Free: r.IntN(2) * r.IntN(9), Unhealthy: r.IntN(9), Withheld: r.IntN(2) * r.IntN(9999)}
		c.Total = c.Used + c.Free + c.Unhealthy + c.Withheld
		s.GPUs = append(s.GPUs, c)
	}
	for range r.IntN(40) {
		name := text(r)
		s.Fabrics = append(s.Fabrics, wire.FabricCounts{Fabric: &name, Nodes: r.IntN(99), FreeNodes: r.IntN(99), LargestFreeBlock: r.IntN(99)})
	}
	for range r.IntN(30) {
		s.Attention = append(s.Attention, text(r)+text(r))
		s.Silent.Agents = append(s.Silent.Agents, text(r))
	}
	for range r.IntN(30) {
		s.Unplaceable = append(s.Unplaceable, wire.UnplaceableRow{Model: text(r), SinceSeconds: r.Float64() * 1e6, Reason: text(r), WouldHelp: text(r)})
		s.IdleReplicas = append(s.IdleReplicas, wire.IdleRow{ID: text(r), Model: text(r), GPUs: r.IntN(99), QuietSeconds: r.Float64() * 1e7, IdleSeconds: -1})
	}
	return s
}

func text(r *rand.Rand) string {
	return strings.Repeat([]string{"gpu-017 ", "ü", "x\x1b[2Jy\n", "meta-llama/Llama"}[r.IntN(4)], r.IntN(12))
}

func frame() status.Input {
	return status.Input{
		Cluster: "c-48547e5bb0a334dc", Peer: "peer-1", Leader: "peer-2", Index: fleet.Index{Epoch: 1, N: 4711}, KnowledgeAge: 12 * time.Millisecond, CaughtUp: true,
		Settings: fleet.DefaultSettings(), Interval: time.Second, Idle: map[string]status.Idle{}, Heartbeats: map[string]time.Duration{},
	}
}

// built makes an input node by node and replica by replica.
type built struct{ status.Input }

func (b *built) node(name, fabric, class string, gpus int) *fleet.Node {
	n := &fleet.Node{Name: name, Inventory: fleet.Inventory{Fabric: fabric}}
	for i := range gpus {
		n.Inventory.GPUs = append(n.Inventory.GPUs, fleet.GPU{UUID: fmt.Sprint(name, "-", class, "-", i), Class: class, Health: fleet.Healthy})
	}
	b.Nodes = append(b.Nodes, n)
	b.Heartbeats[name] = 300 * time.Millisecond
	return n
}

// replica places a ready replica on whole cards of one node, and says how long it is quiet.
func (b *built) replica(model string, n *fleet.Node, first, gpus int, quiet time.Duration) *fleet.Replica {
	r := &fleet.Replica{ID: fmt.Sprintf("r-1.%d.1", 20+len(b.Replicas)), Model: model, State: fleet.Ready, Shards: []fleet.Shard{{Node: n.Name}}}
	for _, g := range n.Inventory.GPUs[first : first+gpus] {
		r.Shards[0].Claims = append(r.Shards[0].Claims, fleet.Claim{GPU: g.UUID})
	}
	b.Replicas = append(b.Replicas, r)
	if quiet > 0 {
		b.Idle[r.ID] = status.Idle{Quiet: quiet, QuietKnown: true, AsOf: time.Second, AsOfKnown: true, Idle: quiet + 11*time.Second, IdleKnown: quiet < 20*time.Hour}
	}
	return r
}

func (b *built) model(name string, least int, refusal string, since time.Duration, help string) {
	spec := fleet.DefaultedSpec()
	spec.Name, spec.Replicas = name, fleet.ReplicaCount{Min: least, Max: max(1, least)}
	b.Models = append(b.Models, &fleet.Model{Spec: spec, Want: least})
	if refusal != "" {
		b.Refusals = append(b.Refusals, status.Refused{Refusal: fleet.Refusal{Model: name, Short: 1, Reason: refusal, WouldHelp: help}, Since: since})
	}
}

func small() wire.Status {
	b := &built{frame()}
	n1, n2 := b.node("gpu-001", "rail-1", "h100-sxm-80gb", 8), b.node("gpu-002", "rail-1", "h100-sxm-80gb", 8)
	n3 := b.node("gpu-003", "rail-2", "h100-sxm-80gb", 8)
	n4 := b.node("gpu-004", "", "l40s-48gb", 4)
	n3.Inventory.GPUs[7].Health, n3.Inventory.GPUs[7].Reason = fleet.Unhealthy, "xid 94"
	n3.Admin = fleet.Cordoned
	b.replica("deepseek-ai/DeepSeek-R1", n1, 0, 8, 0)
	b.replica("meta-llama/Llama-3.1-8B-Instruct", n3, 0, 2, 3*time.Hour+2*time.Minute)
	b.replica("BAAI/bge-small-en-v1.5", n4, 0, 1, 26*time.Hour)
	b.model("deepseek-ai/DeepSeek-R1", 1, "", 0, "")
	b.model("meta-llama/Llama-3.1-8B-Instruct", 1, "", 0, "")
	b.model("BAAI/bge-small-en-v1.5", 0, "", 0, "")
	b.model("qwen/Qwen3-235B-A22B", 1, "2 nodes wanted in one fabric: 1 node: 8 x h100-sxm-80gb busy, 1 cordoned, 1 in another fabric", 310*time.Second, "uncordon gpu-003")
	_ = n2
	return status.Summarize(b.Input)
}

// large is a fleet of 200 nodes in 25 fabrics with something of everything.
func large() wire.Status {
	b := &built{frame()}
	b.Frozen = &fleet.Freeze{Reason: "moving racks r4 to r6", By: "ann@ops-1", At: 1_796_112_000_000}
	classes := []string{"h100-sxm-80gb", "h100-sxm-80gb", "h200-sxm-141gb", "l40s-48gb", "a100-sxm-80gb"}
	for i := range 200 {
		fabric := fmt.Sprintf("rail-%02d", i/8)
		if i >= 192 {
			fabric = ""
		}
		n := b.node(fmt.Sprintf("gpu-%03d", i), fabric, classes[i/8%len(classes)], 8)
		switch {
		case i%41 == 3:
			n.Unreachable = true
		case i%37 == 5:
			n.Admin = fleet.Cordoned
		case i%53 == 7:
			n.Admin = fleet.Draining
		case i%29 == 11:
			n.Inventory.GPUs[i%8].Health, n.Inventory.GPUs[i%8].Reason = fleet.Unhealthy, "xid 79"
		}
		model := fmt.Sprintf("team-%02d/model-%02d", i%7, i%23)
		if i%9 != 4 {
			r := b.replica(model, n, 0, 4, time.Duration(i%5/4)*time.Duration(i)*7*time.Minute)
			if i%31 == 1 {
				r.State, r.Reason = fleet.Failed, "bad weights: sha256 differs"
			}
			b.replica(model, n, 4, 2, 0).State = []fleet.ReplicaState{fleet.Ready, fleet.Starting, fleet.Ready, fleet.DrainingDown}[i%4]
		}
	}
	for i := range 23 {
		b.model(fmt.Sprintf("team-%02d/model-%02d", i%7, i), 1, "", 0, "")
	}
	for i := range 5 {
		b.model(fmt.Sprintf("research/giant-%d", i), 1, fmt.Sprintf("%d nodes of one fabric wanted: 118 nodes: 8 x h100-sxm-80gb busy, 6 cordoned", 8+i), time.Duration(i+1)*time.Hour, "stop r-1.34.1 of team-02/model-09 (quiet 3h)")
	}
	b.Heartbeats["gpu-100"], b.Heartbeats["gpu-101"] = 40*time.Second, 8*time.Second
	b.Routers = []status.Router{{Report: wire.Report{Router: "router-3"}, Age: time.Minute}}
	return status.Summarize(b.Input)
}

func leaderless() wire.Status {
	b := &built{frame()}
	b.Leader, b.KnowledgeAge = "", 47*time.Second
	n := b.node("gpu-001", "rail-1", "h100-sxm-80gb", 8)
	b.replica("m", n, 0, 4, 0)
	b.model("m", 1, "", 0, "")
	return status.Summarize(b.Input)
}

// TestAnIDIsNeverCut: an id is there to be typed, and after a restore it is longer than the column for the usual ones.
func TestAnIDIsNeverCut(t *testing.T) {
	st := small()
	st.IdleReplicas[0].ID = "r-1796130912.4711.12"
	out := strings.Join(screen.Render(st, screen.Options{}), "\n")
	if !strings.Contains(out, "r-1796130912.4711.12 ") {
		t.Errorf("in 80 columns:\n%s", out)
	}
}
