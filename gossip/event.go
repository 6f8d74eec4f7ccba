package gossip

import (
	"fmt"
	"time"
)

// Kind says what kind of event it is.
type Kind string

// Kinds of events.
const (
	ForeignCluster Kind = "foreign_cluster" // a member of another cluster was refused
	DuplicateID    Kind = "duplicate_id"    // two live members have one identity: a copied machine
	DuplicateName  Kind = "duplicate_name"  // two live members of one role and name, with different identities
	Unreadable     Kind = "unreadable"      // a member was refused whose metadata this release cannot read
)

// Event is something that an operator must see. Text names everyone concerned with their addresses.
type Event struct {
	Kind Kind
	Text string
}

// saidFor is for how long the same event is not repeated.
const saidFor = 10 * time.Minute

// maxSaid bounds what is remembered of what was said.
const maxSaid = 1024

// eventQueue is how many events wait for a slow reader; more are only logged.
const eventQueue = 64

// say makes an event, unless the same one was made lately. It never waits.
func (g *Gossip) say(kind Kind, key string, format string, args ...any) {
	if !g.first(string(kind) + " " + key) {
		return
	}
	e := Event{kind, fmt.Sprintf(format, args...)}
	g.cfg.Log.Warn("gossip: "+e.Text, "event", string(e.Kind))
	select {
	case g.events <- e:
	default:
	}
}

// first says whether something was not said lately, and notes that it is said now.
func (g *Gossip) first(what string) bool {
	now := time.Now()
	g.saidLock.Lock()
	defer g.saidLock.Unlock()
	if last, ok := g.said[what]; ok && now.Sub(last) < saidFor {
		return false
	}
	if len(g.said) >= maxSaid {
		clear(g.said)
	}
	g.said[what] = now
	return true
}
