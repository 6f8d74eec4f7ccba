package status

import (
	"berth/fleet"
	"berth/fleet/wire"
)

// Models lists the models, as GET models shows them.
func Models(in Input) []wire.ModelView {
	t, refused := in.tally(), in.refusals()
	out := make([]wire.ModelView, 0, len(in.Models))
	for _, m := range in.Models {
		r := refused[m.Name()]
		v := wire.ModelView{Model: *m, Ready: t.ready[m.Name()], Starting: t.starting[m.Name()], State: t.state(m, r)}
		if r != nil {
			refusal := r.Refusal
			v.Refusal, v.Since = &refusal, r.Since.Seconds()
		}
		out = append(out, v)
	}
	return out
}

// Replicas lists the replicas, as GET replicas shows them: without their keys.
func Replicas(in Input) []wire.ReplicaView {
	t := in.tally()
	out := make([]wire.ReplicaView, 0, len(in.Replicas))
	for _, r := range in.Replicas {
		word := in.Idle[r.ID]
		v := wire.ReplicaView{
			Replica: *r, Lost: t.lost(r.ID), AgeSeconds: in.age(r.StateAt),
			IdleSeconds:  seconds(word.Idle, word.IdleKnown),
			QuietSeconds: seconds(word.Quiet, word.QuietKnown),
			AsOfSeconds:  seconds(word.AsOf, word.AsOfKnown),
			InFlight:     inFlight(word),
		}
		if r.Door != nil {
			v.Door = &fleet.Door{Address: r.Door.Address} // the key is for routers alone
		}
		out = append(out, v)
	}
	return out
}

func inFlight(word Idle) int {
	if !word.InFlightKnown {
		return -1
	}
	return word.InFlight
}

// Nodes lists the registered nodes and after them the machines that gossip alone knows, as GET nodes shows them.
func Nodes(in Input) []wire.NodeView {
	t := in.tally()
	out := make([]wire.NodeView, 0, len(in.Nodes)+len(in.Discovered))
	registered := make(map[string]bool, len(in.Nodes))
	for _, n := range in.Nodes {
		registered[n.Name] = true
		age, heard := in.Heartbeats[n.Name]
		out = append(out, wire.NodeView{
			Node: *n, State: string(n.State()), Reason: whyInState(n), FabricName: n.Fabric(),
			HeartbeatSeconds: seconds(age, heard),
			GPUsTotal:        len(n.Inventory.GPUs), GPUsFree: t.nodes[n.Name].free(), Replicas: t.nodes[n.Name].replicas,
		})
	}
	for _, d := range in.Discovered {
		if registered[d.Name] {
			continue
		}
		v := wire.NodeView{State: "discovered", Reason: d.Reason, HeartbeatSeconds: -1}
		v.Name, v.Address, v.Version = d.Name, d.Address, d.Version
		out = append(out, v)
	}
	return out
}

// whyInState says why a node is in the state that it is in.
func whyInState(n *fleet.Node) string {
	if n.Unreachable && n.UnreachableReason != "" {
		return n.UnreachableReason
	}
	return n.AdminReason
}

// Routers lists the routers with what they last reported, as GET routers shows them.
func Routers(in Input) []wire.RouterView {
	out := make([]wire.RouterView, 0, len(in.Routers))
	for _, r := range in.Routers {
		v := wire.RouterView{
			ID: r.Report.Router, Address: r.Report.Address, Admin: r.Report.Admin, Boot: r.Report.Boot, Version: r.Report.Release,
			State: "reporting", HeardSeconds: seconds(r.Age, true), Table: r.Report.Table, Uses: r.Report.Uses, Demand: r.Report.Demand,
		}
		if r.Age > silentRouter {
			v.State = "silent"
		}
		for _, use := range r.Report.Uses {
			v.InFlight += use.InFlight
		}
		out = append(out, v)
	}
	return out
}

// Ledger lists what is known of the use of each live replica, as GET idle shows it, with who is silent and may have left something unsaid.
func Ledger(in Input) wire.IdleAnswer {
	silent := in.silent()
	a := wire.IdleAnswer{Leader: in.Leader, Replicas: make([]wire.IdleView, 0), SilentAgents: silent.Agents, SilentRouters: silent.Routers}
	for _, r := range in.Replicas {
		if !r.State.Live() {
			continue
		}
		word := in.Idle[r.ID]
		v := wire.IdleView{
			ID: r.ID, Model: r.Model, GPUs: gpus(r), InFlight: inFlight(word), Why: word.Why,
			IdleSeconds:  seconds(word.Idle, word.IdleKnown),
			QuietSeconds: seconds(word.Quiet, word.QuietKnown),
			AsOfSeconds:  seconds(word.AsOf, word.AsOfKnown),
		}
		if !word.QuietKnown && v.Why == "" {
			v.Why = "its door has not been heard"
		}
		a.Replicas = append(a.Replicas, v)
	}
	return a
}
