package fsm

import (
	"io"

	"berth/fleet/wire"
)

// Restore replaces the whole state by a snapshot's. The new state is built aside and checked to the last byte before anything changes; then
// it takes the place of the old one at once, and every watcher wakes. After an error the state is as before.
func (m *Machine) Restore(r io.Reader) error {
	s, _, err := Load(r)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.state.Swap(s)
	old.abandon()
	return nil
}

// abandon wakes everyone who watches a state that Restore has replaced.
func (s *State) abandon() {
	s.hub.end()
	s.signals.fire(everything)
}

// Inspect reads a whole snapshot into a scratch machine, and says what it holds. It is the dry run without which no file may reach raft, which
// ends its process when a restore fails.
func Inspect(r io.Reader) (wire.SnapshotInfo, error) {
	_, info, err := Load(r)
	return info, err
}
