package gossip

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"berth/internal/durable"
)

// knownVersion is the version of the file of known members.
const knownVersion = 1

// maxKnown bounds the file; peers come first, because they are where they were.
const maxKnown = 100

// knownFile lists where members were when this process last looked, so that it finds them again after a restart even if its seeds have moved.
type knownFile struct {
	Addresses []string `json:"addresses"`
}

func (g *Gossip) loadKnown() []string {
	if g.cfg.Known == "" {
		return nil
	}
	var f knownFile
	err := durable.ReadJSON(g.cfg.Known, knownVersion, &f)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			g.cfg.Log.Warn("gossip: the file of known members is of no use; going on with the seeds", "error", err)
		}
		return nil
	}
	return slices.DeleteFunc(f.Addresses, func(addr string) bool {
		_, _, err := splitSeed(addr)
		return err != nil
	})
}

func (g *Gossip) saveKnown(last []string) []string {
	var now []string
	for _, role := range []Role{Peer, Agent, Router} {
		for _, m := range g.Members() {
			if m.Role == role && m.State == Alive && m.Gossip != g.Address() && len(now) < maxKnown {
				now = append(now, m.Gossip)
			}
		}
	}
	// Seeing nobody is no news worth keeping: then the old addresses are all there is.
	if g.cfg.Known == "" || len(now) == 0 || slices.Equal(now, last) {
		return last
	}
	if err := durable.WriteJSON(g.cfg.Known, knownVersion, knownFile{now}); err != nil {
		g.cfg.Log.Warn("gossip: the known members were not saved", "error", err)
	}
	return now
}

const (
	watchEvery = 10 * time.Second
	// twinsAfter is how long two live members of one identity or name are tolerated: after a crash, the start before is seen
	// alive until it has been found dead.
	twinsAfter = 30 * time.Second
)

// watchLoop saves who is known and looks for copies.
func (g *Gossip) watchLoop(ctx context.Context) error {
	var saved []string
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		saved = g.saveKnown(saved)
		g.reportTwins(time.Now())
	}
}

func (g *Gossip) reportTwins(now time.Time) {
	ids, names := make(map[string]Member), make(map[string]Member)
	for _, m := range g.Members() {
		if m.State != Alive || now.Sub(m.Since) < twinsAfter {
			continue
		}
		name := string(m.Role) + " " + m.Name
		if twin, ok := ids[m.ID]; ok {
			g.say(DuplicateID, m.ID, "the id %s of %s %s is alive at %s and at %s: one is a copy of the other; stop it and remove its data directory",
				m.ID, m.Role, m.Name, twin.Gossip, m.Gossip)
		} else if twin, ok := names[name]; ok {
			g.say(DuplicateName, name, "two live members are called %s, at %s (id %s) and at %s (id %s): give one of them another --name",
				name, twin.Gossip, twin.ID, m.Gossip, m.ID)
		}
		ids[m.ID], names[name] = m, m
	}
}
