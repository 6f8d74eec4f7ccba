package admin

import (
	"iter"
	"slices"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
	"berth/status"
)

// staleObserved is the age from which what the leader observed is no longer shown as knowledge: its idle times are unknown then.
const staleObserved = 5 * time.Second

// noIdle asks a board for none of the rows of Idle.
const noIdle = -1

// input joins the state with what the leader observes into what every view is computed from.
func (s *Server) input(state *fsm.State) status.Input {
	k := s.Core.Knowledge()
	o := s.Board.Observed()
	held := time.Duration(o.AgeSeconds * float64(time.Second))
	in := status.Input{
		Cluster: state.Cluster().ID, Leader: k.Leader, Index: state.Index(), KnowledgeAge: k.Age, CaughtUp: k.CaughtUp, Now: fleet.TimeOf(time.Now()),
		Settings: state.Settings(), Frozen: state.Freeze(), Models: collect(state.Models()), Nodes: collect(state.Nodes()), Replicas: collect(state.Replicas()),
		Interval: o.Interval.Std(), Listening: length(o.ListeningSeconds) + held, Heartbeats: map[string]time.Duration{}, Idle: map[string]status.Idle{},
	}
	for node, age := range o.Nodes {
		in.Heartbeats[node] = length(age) + held
	}
	for _, r := range o.Refusals {
		in.Refusals = append(in.Refusals, status.Refused{Refusal: r.Refusal, Since: length(r.SinceSeconds) + held})
	}
	for _, d := range o.Discovered {
		in.Discovered = append(in.Discovered, status.Discovered{Name: d.Name, Address: d.Address, Version: d.Version, Reason: d.Reason})
	}
	for _, r := range o.Routers {
		in.Routers = append(in.Routers, routerOf(r, held))
	}
	if held <= staleObserved && k.Leader != "" {
		for _, row := range o.Idle {
			in.Idle[row.ID] = idleOf(row, held)
		}
	}
	return in
}

func collect[T any](rows iter.Seq[*T]) []*T { return slices.Collect(rows) }

func length(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// idleOf takes a row of the ledger back apart. What the leader said a moment ago is that much older now; what was certain stays so.
func idleOf(r wire.IdleView, held time.Duration) status.Idle {
	i := status.Idle{
		IdleKnown: r.IdleSeconds >= 0, QuietKnown: r.QuietSeconds >= 0, AsOfKnown: r.AsOfSeconds >= 0,
		InFlight: max(0, r.InFlight), InFlightKnown: r.InFlight >= 0, Why: r.Why,
	}
	if i.IdleKnown {
		i.Idle = length(r.IdleSeconds) + held
	}
	if i.QuietKnown {
		i.Quiet = length(r.QuietSeconds)
	}
	if i.AsOfKnown {
		i.AsOf = length(r.AsOfSeconds) + held
	}
	return i
}

func routerOf(r wire.RouterView, held time.Duration) status.Router {
	uses := make(map[string]wire.Use, len(r.Uses))
	for id, u := range r.Uses {
		uses[id] = wire.Use{Age: u.Age + held.Seconds(), InFlight: u.InFlight}
	}
	return status.Router{Age: length(r.HeardSeconds) + held, Report: wire.Report{
		Router: r.ID, Boot: r.Boot, Release: r.Version, Address: r.Address, Admin: r.Admin, Table: r.Table, Uses: uses, Demand: r.Demand,
	}}
}

func (s *Server) modelViews(state *fsm.State) []wire.ModelView { return status.Models(s.input(state)) }
func (s *Server) replicaViews(state *fsm.State) []wire.ReplicaView {
	return status.Replicas(s.input(state))
}
func (s *Server) nodeViews(state *fsm.State) []wire.NodeView { return status.Nodes(s.input(state)) }
func (s *Server) routerViews(state *fsm.State) []wire.RouterView {
	return status.Routers(s.input(state))
}
func (s *Server) ledger(state *fsm.State) wire.IdleAnswer { return status.Ledger(s.input(state)) }
