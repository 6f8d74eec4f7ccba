package peer

import (
	"context"
	"log/slog"
	"time"

	"berth/consensus"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/run"
	"berth/peer/board"
)

// leader gives the duties what they need.
type leader struct {
	log    *slog.Logger
	core   *core
	board  *board.Board
	roster *roster
	clock  func() time.Duration
	care   *care
}

// lead is one term: the cluster has an identity, then the duties run until the context ends, and all of them are joined when it returns. A duty
// does not return by itself; one that fails ends this peer, and another one leads.
func (l *leader) lead(ctx context.Context, number uint64) error {
	term, end := l.board.Lead(number)
	defer end()
	l.note("leads", number)
	for {
		err := l.core.found(ctx)
		if err == nil {
			break
		}
		l.log.Warn("cannot give the cluster its identity; trying again", "error", err)
		if pause(ctx, planRetry); ctx.Err() != nil {
			return nil
		}
	}
	g := run.NewGroup(ctx)
	g.Add("planning", (&planning{log: l.log, writer: l.core, term: term, clock: l.clock}).run)
	g.Add("liveness", l.liveness(term).run)
	g.Add("drains", (&drains{log: l.log, writer: l.core}).run)
	g.Add("gangs", (&gangs{log: l.log, writer: l.core}).run)
	g.Add("withdrawals", (&withdrawals{log: l.log, writer: l.core, term: term, clock: l.clock}).run)
	g.Add("promotion", l.promotion)
	g.Add("silent peers", l.core.node.MendSilent)
	g.Add("levels", (&levels{log: l.log, writer: l.core, servers: l.core.node.Servers}).run)
	g.Add("dead peers", (&retirement{log: l.log, core: l.core, since: time.Now()}).run)
	g.Add("housekeeping", (&housekeeping{term: term, core: l.core, roster: l.roster, care: l.care, clock: l.clock, since: time.Now()}).run)
	g.Add("observations", (&observations{term: term, clock: l.clock, note: l.observed}).run)
	return g.Wait()
}

func (l *leader) observed(c board.Condition, text string) {
	l.board.Note(wire.Event{At: fleet.TimeOf(time.Now()), Kind: "observation", Who: l.core.ID(), Node: c.Node, Model: c.Model, Text: text, Why: c.Why})
}

func (l *leader) liveness(term *board.Term) *liveness {
	return &liveness{
		log: l.log, writer: l.core, term: term, clock: l.clock, alive: l.roster.alive, self: l.core.ID(),
		voters: func() []string { return voters(l.core.node.Servers()) },
		note: func(node, text string) {
			l.board.Note(wire.Event{At: fleet.TimeOf(time.Now()), Kind: "observation", Who: l.core.ID(), Node: node, Text: text})
		},
	}
}

func (l *leader) note(text string, term uint64) {
	l.log.Info("this peer leads", "term", term)
	l.board.Note(wire.Event{At: fleet.TimeOf(time.Now()), Kind: "leader", Who: l.core.ID(), Text: text})
}

// promotion gives a vote to each peer that has kept up, but only to one that understands what the cluster writes.
func (l *leader) promotion(ctx context.Context) error {
	return l.core.node.PromoteWhenReady(ctx, func(s consensus.Server) bool {
		state := l.core.State()
		row, ok := state.Server(s.ID)
		return ok && row.MaxLevel >= state.Cluster().Level
	})
}

func voters(servers []consensus.Server) []string {
	var out []string
	for _, s := range servers {
		if s.Voter {
			out = append(out, s.ID)
		}
	}
	return out
}
