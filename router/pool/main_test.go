package pool

import (
	"context"
	"errors"
	"testing"
	"time"

	"berth/fleet"
	"berth/fleet/wire"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a pool whose clock the bubble drives.
type bench struct {
	*testing.T
	*Pool
}

func newBench(t *testing.T, rows ...wire.TableModel) *bench {
	start := time.Now()
	b := &bench{T: t, Pool: New(func() time.Duration { return time.Since(start) })}
	if rows != nil {
		b.table(rows...)
	}
	return b
}

func (b *bench) table(rows ...wire.TableModel) { b.Apply(wire.Table{Version: 1, Models: rows}) }

func row(name string, endpoints ...wire.Endpoint) wire.TableModel {
	return wire.TableModel{Name: name, Max: 4, Endpoints: endpoints,
		Serve: fleet.ServeSpec{Policy: "least-loaded", Queue: fleet.QueueSpec{Limit: 5, Timeout: fleet.Duration(time.Minute)}}}
}

func ready(id string) wire.Endpoint {
	return wire.Endpoint{Replica: id, Address: id + ":1", Key: "k", State: fleet.Ready, Generation: 1}
}

func lost(id string) wire.Endpoint {
	e := ready(id)
	e.Lost = true
	return e
}

func unloading(id string) wire.Endpoint {
	e := ready(id)
	e.State, e.Conditional = fleet.DrainingDown, true
	return e
}

// get acquires and fails the test if that is refused.
func (b *bench) get(model string, hint *Hint) *Lease {
	b.Helper()
	l, err := b.Acquire(context.Background(), model, hint)
	if err != nil {
		b.Fatalf("acquire %s: %v", model, err)
	}
	return &l
}

// refused acquires and returns the refusal; anything else fails the test.
func (b *bench) refused(model string, hint *Hint) *Refusal {
	b.Helper()
	l, err := b.Acquire(context.Background(), model, hint)
	var r *Refusal
	if !errors.As(err, &r) {
		b.Fatalf("acquire %s: %q %v, want a refusal", model, l.Endpoint.Replica, err)
	}
	return r
}

// inFlight returns what the next report would say of a replica: -1 if nothing.
func (b *bench) inFlight(replica string) int {
	_, uses := b.Uses(0, true)
	u, ok := uses[replica]
	if !ok {
		return -1
	}
	return u.InFlight
}
