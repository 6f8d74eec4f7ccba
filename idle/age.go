package idle

import (
	"fmt"
	"time"
)

// maxAge is the longest age that is believed, in seconds: ten years. A zero date that slipped into a subtraction is two
// thousand years old.
const maxAge = 10 * 365 * 86400

// margin is the part of an age that is believed. Oscillators of servers are wrong by up to some 200 parts in a million, and
// two of them take part (the witness's and the leader's); shortening by a thousandth covers both twice over.
const margin = 0.999

// moment places an age in seconds, as it arrived at now, on the leader's clock. It is false for what cannot be an age:
// negative (a time in the future), not a number, infinite, or older than any machine. That counts as used on arrival, since
// whoever sent it knew of some use.
// An age counts from its arrival (DESIGN §8, rule 4); the margin is of rule 7.
func moment(now time.Duration, age float64) (time.Duration, bool) {
	if !(age >= 0 && age <= maxAge) { // written so that NaN fails
		return now, false
	}
	return now - time.Duration(age*margin*float64(time.Second)), true
}

// Problem is something malformed that a witness sent. It was taken as "used on arrival" where it concerned a use.
type Problem struct {
	Witness string // "router r1", "node gpu-017"
	Subject string // the replica or model concerned; may be empty
	What    string
}

// String is one line for a log.
func (p Problem) String() string {
	if p.Subject == "" {
		return p.Witness + ": " + p.What
	}
	return p.Witness + ": " + p.Subject + ": " + p.What
}

// maxProblems bounds what one message can put into the log.
const maxProblems = 16

// problems collects the problems of one message.
type problems struct {
	witness string
	list    []Problem
	more    int
}

func (p *problems) add(subject, format string, args ...any) {
	if len(p.list) == maxProblems {
		p.more++
		return
	}
	p.list = append(p.list, Problem{p.witness, shorten(subject), fmt.Sprintf(format, args...)})
}

func (p *problems) all() []Problem {
	if p.more > 0 {
		p.list = append(p.list, Problem{Witness: p.witness, What: fmt.Sprintf("and %d more like these", p.more)})
	}
	return p.list
}

// maxID is the longest id or name that is kept, in bytes: the longest name of a model.
const maxID = 253

func validID(id string) bool { return id != "" && len(id) <= maxID }

func shorten(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
