package peer

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
	"berth/peer/board"
)

// machineWriter applies what a duty proposes at once.
type machineWriter struct {
	machine *fsm.Machine
	index   uint64
}

func (w *machineWriter) State() *fsm.State { return w.machine.State() }

func (w *machineWriter) Propose(_ context.Context, meta fsm.Meta, cmd fsm.Command) (fsm.Outcome, error) {
	data, err := fsm.Encode(meta, cmd)
	if err != nil {
		return fsm.Outcome{}, err
	}
	w.index++
	return w.machine.Apply(w.index, data)
}

func (w *machineWriter) write(ctx context.Context, cmd fsm.Command) error {
	out, err := w.Propose(ctx, stamp(), cmd)
	if err == nil && out.Err != nil {
		return out.Err
	}
	return err
}

// leading is a fleet with so many nodes of eight cards, models of one-card replicas that run on five of the eight, and a leader's planning duty over it.
func leading(b *testing.B, nodes int) (*planning, *knowledge, *machineWriter) {
	b.Helper()
	w := &machineWriter{machine: fsm.New()}
	must := func(err error) {
		if err != nil {
			b.Helper()
			b.Fatal(err)
		}
	}
	must(w.write(b.Context(), fsm.ClusterCreate{ID: "bench"}))
	for i := range nodes {
		must(w.write(b.Context(), fsm.NodeRegister{Registration: benchNode(i)}))
	}
	for i := range 200 {
		must(w.write(b.Context(), fsm.ModelApply{Spec: benchModel(fmt.Sprintf("m-%03d", i), nodes*5/200)}))
	}
	at := time.Duration(0)
	term := boardTerm(w.State)
	p := &planning{log: slog.New(slog.DiscardHandler), writer: w, term: term, clock: func() time.Duration { return 1000*time.Hour + at }}
	k := newKnowledge()
	for range 3 {
		p.once(b.Context(), w.State(), k)
	}
	for i := range nodes {
		must(w.comeUp(b.Context(), benchNode(i).Name))
	}
	p.once(b.Context(), w.State(), k)
	return p, k, w
}

// comeUp makes every replica of a node ready.
func (w *machineWriter) comeUp(ctx context.Context, node string) error {
	for _, to := range []string{wire.BecameStarting, wire.BecameReady} {
		c := fsm.ReplicaTransitions{Node: node, Instance: 1}
		for r := range w.State().ReplicasOn(node) {
			c.Items = append(c.Items, wire.Transition{Replica: r.ID, Order: r.Order, Start: r.Start, To: to, Shim: 1, Door: &fleet.Door{Address: node + ":20000", Key: "k"}})
		}
		if len(c.Items) == 0 {
			return nil
		}
		if err := w.write(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func boardTerm(state func() *fsm.State) *board.Term {
	b := board.New(board.Config{Peer: "leader", State: state, Clock: func() time.Duration { return 1000 * time.Hour }, Log: slog.New(slog.DiscardHandler)})
	t, _ := b.Lead(1)
	return t
}

func benchNode(i int) wire.Registration {
	name := fmt.Sprintf("gpu-%05d", i)
	r := wire.Registration{
		Version: wire.Version, Name: name, ID: "id-" + name, Instance: 1, Address: name + ":7310", Level: 1, Release: "bench",
		Engines:   []fleet.EngineOffer{{Driver: "sim", Version: "1.0.0", Hub: true, SpanNodes: true}},
		Inventory: fleet.Inventory{Source: "file", Fabric: fmt.Sprintf("fabric-%04d", i/16), CPUs: 128, Memory: fleet.TiB},
	}
	for g := range 8 {
		r.Inventory.GPUs = append(r.Inventory.GPUs, fleet.GPU{UUID: fmt.Sprintf("GPU-%05d-%d", i, g), Index: g, Class: "h100", Memory: 80 * fleet.GiB, Health: fleet.Healthy})
	}
	return r
}

func benchModel(name string, want int) fleet.ModelSpec {
	spec := fleet.DefaultedSpec()
	spec.Version, spec.Kind, spec.Name = fleet.SpecVersion, "model", name
	spec.Engine = fleet.EngineSpec{Driver: "sim", Weights: "w"}
	spec.Placement.GPUsPerNode = 1
	spec.Replicas = fleet.ReplicaCount{Min: want, Max: 10_000}
	return spec
}

// One more replica of one model on a fleet where everything runs: what the leader spends from the change until the plan that answers it is proposed.
func BenchmarkPlanningAgain(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			p, k, w := leading(b, nodes)
			want := nodes * 5 / 200
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				if i%200 == 0 {
					want++
				}
				if err := w.write(b.Context(), fsm.ModelScale{Model: fmt.Sprintf("m-%03d", i%200), Replicas: want}); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				p.once(b.Context(), w.State(), k)
			}
		})
	}
}
