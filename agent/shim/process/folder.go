package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"berth/agent/shim"
	"berth/internal/durable"
)

// Files of a shim's folder. The agent writes launch.json once; the shim writes the others.
const (
	launchFile = "launch.json" // shim.Launch
	orderFile  = "order.json"  // the newest order taken, before it was acted on
	stateFile  = "state.json"  // state
	lockFile   = "lock"        // locked while the shim lives
	socketFile = "shim.sock"
	logFile    = "shim.log" // of the shim itself

	folderVersion = 1
)

// state is what a shim records of itself, for an agent that finds it dead.
type state struct {
	Shim   ident       `json:"shim"`
	Engine ident       `json:"engine"`          // the engine started last; it leads its session
	Group  string      `json:"group,omitempty"` // cgroup; the engine's is below it
	Status shim.Status `json:"status"`
}

// folder is one shim's place on disk.
type folder string

func (f folder) file(name string) string { return filepath.Join(string(f), name) }

func (f folder) launch() (l shim.Launch, err error) {
	err = durable.ReadJSON(f.file(launchFile), folderVersion, &l)
	return l, err
}

// state gives what the shim recorded; a shim that died at once has recorded nothing.
func (f folder) state() (s state, err error) {
	err = durable.ReadJSON(f.file(stateFile), folderVersion, &s)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return s, err
}

// order gives the newest order that the shim took after its launch, if any.
func (f folder) order() (o *shim.Order, err error) {
	var got shim.Order
	err = durable.ReadJSON(f.file(orderFile), folderVersion, &got)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return &got, err
}

// goneEvery is the time between looks at the lock of a shim that is ending; it takes a few milliseconds.
const goneEvery = 2 * time.Millisecond

// dyingPatience is how long a process may take to be gone after it has let go of its files.
const dyingPatience = 5 * time.Second

var errHeld = errors.New("locked")

// lock takes the folder's lock, or fails with errHeld while a shim has it.
func (f folder) lock() (*os.File, error) {
	file, err := os.OpenFile(f.file(lockFile), os.O_CREATE|os.O_RDWR, durable.FileMode)
	if err != nil {
		return nil, fmt.Errorf("lock of a shim: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errHeld
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// gone waits until the shim that holds the lock file has ended, wherever its folder is by then. Whoever only looks takes a shared lock, so that one who
// looks is never taken for a shim by another.
func gone(ctx context.Context, lock *os.File) error {
	tick := time.NewTicker(goneEvery)
	defer tick.Stop()
	for unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// held says whether a shim holds the folder.
func (f folder) held() (bool, error) {
	file, err := os.OpenFile(f.file(lockFile), os.O_CREATE|os.O_RDWR, durable.FileMode)
	if err != nil {
		return false, fmt.Errorf("lock of a shim: %w", err)
	}
	defer file.Close()
	err = unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// dead says whether no shim holds the folder. One whose folder was taken away under it lives on, and holds its cards.
func (f folder) dead() bool {
	if _, err := os.Stat(string(f)); errors.Is(err, fs.ErrNotExist) {
		return !f.outlived()
	}
	held, err := f.held()
	return err == nil && !held
}

// outlived says whether a shim lives on without its folder. What cannot be seen counts as yes.
func (f folder) outlived() bool {
	all, err := processes()
	return err != nil || slices.ContainsFunc(all, func(p proc) bool {
		dir, ok := environ(p.pid, shimMark)
		return ok && dir == string(f) && !p.ended()
	})
}

// copied refuses a folder that no shim holds although the shim that it tells of lives: that one holds another folder, of which this is a copy, and its
// engine is not to be ended from here. A shim that has just died lets its lock go a moment before it is gone.
func (f folder) copied(ctx context.Context) error {
	s, err := f.state()
	if err != nil {
		return nil // there is nobody to ask for
	}
	tick := time.NewTicker(goneEvery)
	defer tick.Stop()
	limit := time.NewTimer(dyingPatience)
	defer limit.Stop()
	for s.Shim.alive() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return fmt.Errorf("%s is a copy, or its lock was replaced: shim %d of this folder lives as process %d and holds %s; use the data directory that it belongs to, or empty this one",
				f, s.Status.Shim, s.Shim.PID, f.holder(s.Shim))
		}
	}
	return nil
}

// holder names the folder that a shim was started with.
func (f folder) holder(shim ident) string {
	if dir, ok := environ(shim.PID, shimMark); ok && dir != string(f) {
		return dir
	}
	return "another lock"
}

// tree is what may be left of the engine of a shim that is dead.
func (f folder) tree() (tree, error) {
	s, err := f.state()
	t := tree{mark: engineMark + string(f), leader: s.Engine}
	if s.Group != "" && s.Shim.thisBoot() {
		g := group(s.Group)
		t.group = &g
	}
	return t, err
}
