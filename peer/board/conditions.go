package board

import (
	"maps"
	"slices"
	"time"
)

// Condition is something that the leader observes for as long as it lasts: history tells when it begins and when it ends.
type Condition struct {
	Node, Model string // what it is about
	Text, Why   string
	Over        string // what is said when it has ended
}

// About tells conditions apart; what is said of one may change while it lasts.
func (c Condition) About() string { return c.Node + "\x00" + c.Model }

// Conditions lists what the leader observes now: models that are refused a place, and agents that are silent.
func (t *Term) Conditions(now time.Duration) []Condition {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Condition
	for _, model := range slices.Sorted(maps.Keys(t.refusals)) {
		out = append(out, Condition{Model: model, Text: "not placed", Why: t.refusals[model].Reason, Over: "no longer refused a place"})
	}
	for _, node := range t.silentAgents(now) {
		out = append(out, Condition{Node: node, Text: "its agent is silent", Over: "its agent is heard again, or its node is gone"})
	}
	return out
}
