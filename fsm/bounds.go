package fsm

import (
	"slices"
	"strings"

	"berth/fleet"
)

// Bounds of what many commands could pile up in one row. What comes in one command is bounded by MaxCommand already; a row that grew with every
// command would one day be a snapshot that nobody can read.
const (
	maxReason   = 1000 // bytes
	maxLabel    = 253  // bytes, of a label's name and of its value
	maxLabels   = 256  // operator's labels a node
	maxExitLog  = 40   // lines of an engine's last words
	maxExitLine = 500  // bytes
)

// clip cuts a text at a number of bytes, between two characters: a broken one would be written back as another character, and a state that
// was restored would differ from the one that was saved.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}

// clipExit keeps the last lines of what an engine wrote.
func clipExit(e *fleet.Exit) *fleet.Exit {
	c := *e
	c.Log = slices.Clone(e.Log[max(0, len(e.Log)-maxExitLog):])
	for i, line := range c.Log {
		c.Log[i] = clip(line, maxExitLine)
	}
	return &c
}
