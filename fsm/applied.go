package fsm

// Applied is one entry of the log with what it did: who proposed which kind of command when, and the state that it made.
type Applied struct {
	Kind    string
	Meta    Meta
	Outcome Outcome
	State   *State
}

// Tell sets who is told of each applied entry, on the goroutine that applies and before readers can see the state that it made; it must not
// wait. It is for before the first entry. What a snapshot brings is told to nobody.
func (m *Machine) Tell(fn func(Applied)) { m.told = fn }
