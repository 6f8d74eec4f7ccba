package sim

import (
	"sync"
	"syscall"
	"time"
)

// disk is a machine's disk, which outlives the processes that write to it.
type disk struct {
	mu      sync.Mutex
	slow    time.Duration
	fail    error
	hung    bool
	bad     bool          // has failed or hung since the present process began
	changed chan struct{} // closed and renewed at each change
}

func newDisk() *disk { return &disk{changed: make(chan struct{})} }

// set makes each write take so long, fail, or never return.
func (d *disk) set(slow time.Duration, fail error, hung bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slow, d.fail, d.hung = slow, fail, hung
	d.bad = d.bad || fail != nil || hung
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *disk) misbehaved() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bad
}

// diskLife is the disk as one process sees it: after that process's end its writes do not land any more.
type diskLife struct {
	*disk
	once   sync.Once
	ended  chan struct{}
	frozen bool // with the whole process; under the disk's lock
}

func (d *disk) renew() *diskLife {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bad = d.fail != nil || d.hung
	return &diskLife{disk: d, ended: make(chan struct{})}
}

// freeze holds every write of this process until it goes on. It is no fault of the disk.
func (l *diskLife) freeze(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = on
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *diskLife) end() { l.once.Do(func() { close(l.ended) }) }

func (l *diskLife) write() error {
	for {
		l.mu.Lock()
		slow, fail, hung, changed := l.slow, l.fail, l.hung || l.frozen, l.changed
		l.mu.Unlock()
		switch {
		case fail != nil && !hung:
			return fail
		case !hung:
			if slow > 0 {
				time.Sleep(slow)
			}
			select {
			case <-l.ended:
				return syscall.EIO
			default:
				return nil
			}
		}
		select {
		case <-changed:
		case <-l.ended:
			return syscall.EIO // the process died in this write
		}
	}
}

func (d *disk) slowed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.slow > 0
}
