package router

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"berth/internal/durable"
)

// A router can be replaced by a newer process of itself without a failed request (Config.Share): the new process waits
// for the data directory; the old one, told to end, gives the directory back but goes on; the new one opens the same
// ports, leads, and says so in the directory; the old one ends its clients' connections one answer at a time, then
// drains and sends a last report.
const (
	leadFile    = "leads" // holds the number of the start that leads the ports
	leadVersion = 1
	bootFile    = "boot" // counts the starts

	handOverLook = 20 * time.Millisecond
	// successorWait is how long the old process goes on when nobody takes the data directory, and successorStart how
	// long a successor that has taken it may need to open its ports.
	successorWait  = time.Second
	successorStart = 10 * time.Second
	// linger is how long the old process answers on connections that it has, each answer with Connection: close: a client
	// that is told to open a new connection loses nothing, one that finds its connection closed loses a request.
	linger = 5 * time.Second
)

type startNumber struct {
	Start uint64 `json:"start"`
}

// Await waits until no other process has the data directory. It returns the context's error if that ends first.
func Await(ctx context.Context, dir string, log *slog.Logger) error {
	if err := durable.MakeDir(dir); err != nil {
		return err
	}
	for first := true; ; first = false {
		lock, err := durable.LockDir(dir)
		if err == nil {
			return lock.Unlock()
		}
		if !errors.Is(err, durable.ErrLocked) {
			return err
		}
		if first {
			log.Info("waiting for the router that has the data directory to hand over", "held", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(handOverLook):
		}
	}
}

// lead tells the process that had the data directory before that this one has the ports.
func (r *Router) lead() error {
	return durable.WriteJSON(filepath.Join(r.config.DataDir, leadFile), leadVersion, startNumber{r.boot})
}

// handOver gives the data directory to a successor, if there is one, and returns when clients have had the time to
// move to it, or when cut ends.
func (r *Router) handOver(cut context.Context) {
	_ = r.report(cut) // what a successor's reports would make out of date
	r.tables.detach()
	if err := r.Close(); err != nil {
		r.config.Logger.Error("the data directory cannot be handed over", "error", err)
		return
	}
	if !r.succeeded(cut) {
		r.config.Logger.Info("no router takes over")
		return
	}
	r.config.Logger.Info("another router has taken over; its clients move")
	r.handler.parting.Store(true)
	pause(cut, min(linger, r.config.Drain))
}

// succeeded waits until a successor has the ports.
func (r *Router) succeeded(cut context.Context) bool {
	start := time.Now()
	for cut.Err() == nil {
		var leads startNumber
		_ = durable.ReadJSON(filepath.Join(r.config.DataDir, leadFile), leadVersion, &leads) // not there yet
		if leads.Start > r.boot {
			return true
		}
		patience := successorWait
		if n, _ := durable.ReadCounter(filepath.Join(r.config.DataDir, bootFile)); n > r.boot { // who cannot be read is not there
			patience = successorStart
		}
		if time.Since(start) > patience {
			return false
		}
		pause(cut, handOverLook)
	}
	return false
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
