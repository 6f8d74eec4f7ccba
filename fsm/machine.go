package fsm

import (
	"fmt"
	"sync"
	"sync/atomic"

	"berth/fleet"
)

// Outcome is what one command did. It is remembered by request id, so that a repeated write gets its first answer.
type Outcome struct {
	Index      fleet.Index    `json:"index"`                // of the entry
	Err        *fleet.Error   `json:"err,omitempty"`        // why the command was refused, as a whole
	Items      []*fleet.Error `json:"items,omitempty"`      // plan and transitions: one an item, nil where it was applied
	Changed    bool           `json:"changed,omitempty"`    // false: the state was already so
	Generation uint64         `json:"generation,omitempty"` // of the model, for model.apply and model.scale
}

// Machine holds the newest state. Apply and Restore are for the one goroutine that raft applies entries on; State is for everyone.
type Machine struct {
	mu    sync.Mutex // held by Apply and Restore
	state atomic.Pointer[State]
	told  func(Applied) // see Tell; may be nil
}

// New returns a machine with nothing in it, not even a cluster's identity.
func New() *Machine {
	m := new(Machine)
	m.state.Store(newState())
	return m
}

// State returns the newest state. It takes no lock and never waits.
func (m *Machine) State() *State { return m.state.Load() }

// Apply applies the log entry at an index. A rejection is in the Outcome and is an ordinary answer. An error is not: this peer cannot know what
// the entry means (damaged, or of a newer release), its state stays as it is, and it must stop before it diverges.
func (m *Machine) Apply(logIndex uint64, data []byte) (Outcome, error) {
	e, err := readEntry(data)
	if err == nil {
		err = e.understood()
	}
	if err != nil {
		return Outcome{}, fmt.Errorf("at index %d: %w", logIndex, err)
	}
	return m.apply(logIndex, e), nil
}

// ApplyEntry is Apply for an entry that this process has made itself, and so has read already; only its checksum is looked at again.
func (m *Machine) ApplyEntry(logIndex uint64, e *Entry) (Outcome, error) {
	err := Verify(e.data)
	if err == nil {
		err = e.understood()
	}
	if err != nil {
		return Outcome{}, fmt.Errorf("at index %d: %w", logIndex, err)
	}
	return m.apply(logIndex, e), nil
}

func (m *Machine) apply(logIndex uint64, e *Entry) Outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	base := m.state.Load()
	tx := base.begin(fleet.Index{Epoch: base.core.Cluster.Epoch, N: logIndex}, e.head.Meta)
	outcome := tx.run(e.kind, e.command, bodyHash(e.head))
	next := tx.commit()
	if m.told != nil {
		m.told(Applied{Kind: e.head.Kind, Meta: e.head.Meta, Outcome: outcome, State: next})
	}
	m.state.Store(next)
	tx.notify(next)
	return outcome
}

// Understand says why Apply could not apply an entry, nil if it could.
func Understand(data []byte) error {
	e, err := readEntry(data)
	if err != nil {
		return err
	}
	return e.understood()
}

// understood refuses an entry after which this release would not understand the log any more.
func (e *Entry) understood() error {
	if raise, ok := e.command.(LevelRaise); ok && raise.Level > Level {
		return fmt.Errorf("the cluster is raised to level %d; this release understands level %d", raise.Level, Level)
	}
	return nil
}

// run answers one command: from memory, or by applying it.
func (tx *txn) run(k kind, c Command, hash string) Outcome {
	if o, ok := tx.recall(hash); ok {
		return o
	}
	o := tx.dispatch(k, c)
	tx.remember(hash, o)
	return o
}

func (tx *txn) dispatch(k kind, c Command) Outcome {
	if _, creating := c.(ClusterCreate); !creating && tx.core.Cluster.ID == "" {
		return tx.refuse(fleet.Errorf(fleet.NotReady, "there is no cluster yet; %s comes after cluster.create", c.Kind()))
	}
	if need, have := max(k.level, tx.meta.Level), max(tx.core.Cluster.Level, 1); need > have {
		return tx.refuse(fleet.Errorf(fleet.LevelTooOld, "%s needs level %d; the cluster is at level %d", c.Kind(), need, have).
			WithHint("upgrade every peer; the leader then raises the level"))
	}
	r := k.apply(tx, c)
	return Outcome{Index: tx.at, Err: r.err, Items: r.items, Changed: tx.changed != 0, Generation: r.generation}
}

func (tx *txn) refuse(err *fleet.Error) Outcome { return Outcome{Index: tx.at, Err: err} }
