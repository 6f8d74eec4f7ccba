package shim

import (
	"context"
	"io"

	"berth/fleet"
	"berth/fleet/wire"
)

// Handle is the agent's hold on one shim. Every call fails with a context's end; a shim that is gone gives [ErrGone].
type Handle interface {
	// Launch is what the shim was started with, its number filled in.
	Launch() Launch
	// Status waits until the status is newer than version after (0: at once), or until the context ends; then it gives
	// the status as it is.
	Status(ctx context.Context, after uint64) (Status, error)
	// Order hands an order over. An order older than one seen is refused with code too_old; the same once more is not
	// an error. It returns when the order is taken, not when it is carried out.
	Order(ctx context.Context, o Order) error
	// Reading asks the door. Its Replica is set; its Stamp is the caller's to add.
	Reading(ctx context.Context) (wire.Reading, error)
	// Logs gives the last lines of the engine's output, and with follow goes on until it is closed.
	Logs(ctx context.Context, tail int, follow bool) (io.ReadCloser, error)
	// Kill ends the engine with SIGKILL, in flight or not, and then the shim. What was recorded of it is kept, as when it died.
	Kill(ctx context.Context) error
	// Close ends a shim whose engine has ended, and forgets it: its door refuses no more and its folder is gone. Logs
	// stay. It fails while something of the engine is left.
	Close(ctx context.Context) error
}

// Maker makes shims and finds them again.
type Maker interface {
	// Start makes a shim. It returns when the shim has taken over: what happens to the engine then is in its Status.
	Start(ctx context.Context, l Launch) (Handle, error)
	// Find lists every shim there is, whoever started it.
	Find(ctx context.Context) (Found, error)
}

// Found is what [Maker.Find] found.
type Found struct {
	Live []Handle
	Dead []Dead // their engines' processes have been ended
	// Unmanaged are shims whose folder is lost or cannot be read. They hold their cards and are left alone.
	Unmanaged []fleet.Unmanaged
}

// Dead is a shim that ended without being closed. The agent starts it again as a new shim with the same door, if its
// last order was to run, and then or otherwise calls Forget.
type Dead struct {
	Launch Launch
	// Last is the last status that it recorded; its Door, Order, Start, Restarts and Phase are what it had.
	Last Status
	// Newest is the newest order that it took after its launch; nil: none.
	Newest *Order
	// Stopping says that its newest order was to stop.
	Stopping bool
	// Stuck says that something of its engine could not be ended; the card is not free.
	Stuck  bool
	Forget func() error
}

// Continue fills in the newest order that the shim took, nil for none.
func (d *Dead) Continue(o *Order) {
	d.Newest = o
	d.Stopping = o != nil && o.Action == wire.ActionStop
}

// Again gives the launch that continues a dead shim: its newest order, the same door, and the exit counted as a restart.
func (d Dead) Again() Launch {
	l := d.Launch
	l.Shim, l.Door = 0, d.Last.Door
	if o := d.Newest; o != nil {
		l.Order = o.Order
		if o.Program != nil {
			l.Program = *o.Program
		}
	}
	l.Restarts = d.Last.Restarts + 1
	l.Exit = &fleet.Exit{Code: -1, Signal: "SIGKILL"}
	return l
}
