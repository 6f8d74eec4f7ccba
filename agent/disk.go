package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/durable"
)

const bookVersion = 1

// book is what an agent must not forget of the peers: which cluster, the newest index seen, and the last orders. It is written before any of it
// is acted on, so that no restart makes the agent follow an order older than one that it has followed.
type book struct {
	Cluster string      `json:"cluster,omitempty"`
	Seen    fleet.Index `json:"seen"`
	Orders  []entry     `json:"orders"` // in order of replica
}

// entry is the last order for one shard, and the door that its replica had: a start without peers takes exactly that one.
type entry struct {
	Order wire.Order  `json:"order"`
	Door  *fleet.Door `json:"door,omitempty"`
}

// disk is the agent's data directory.
type disk struct {
	dir      string
	lock     *durable.DirLock
	id       string
	instance uint64

	mu   sync.Mutex
	book book
}

// openDisk takes the data directory for this process. Its owner closes it.
func openDisk(dir string) (*disk, error) {
	if err := durable.MakeDir(dir); err != nil {
		return nil, err
	}
	lock, err := durable.LockDir(dir)
	if err != nil {
		return nil, err
	}
	d := &disk{dir: dir, lock: lock}
	if err := d.load(); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return d, nil
}

func (d *disk) load() error {
	var err error
	if d.id, err = durable.LoadOrCreateID(d.path("node-id.json"), "node-"); err != nil {
		return err
	}
	if d.instance, err = durable.NextCounter(d.path("instance.json")); err != nil {
		return err
	}
	err = durable.ReadJSON(d.path("orders.json"), bookVersion, &d.book)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the orders that this node has seen cannot be read; without them it could follow one that is long past: %w", err)
	}
	return nil
}

func (d *disk) path(name string) string { return filepath.Join(d.dir, name) }

func (d *disk) close() error { return d.lock.Unlock() }

func (d *disk) cluster() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.book.Cluster
}

func (d *disk) seen() fleet.Index {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.book.Seen
}

func (d *disk) entries() []entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.book.Orders)
}

// change writes a changed book; on an error nothing has changed.
func (d *disk) change(f func(*book)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.book
	next.Orders = slices.Clone(next.Orders)
	f(&next)
	if err := durable.WriteJSON(d.path("orders.json"), bookVersion, next); err != nil {
		return err
	}
	d.book = next
	return nil
}

// belongs refuses the answer of another cluster than the one that the node has registered with.
func (d *disk) belongs(cluster string) error {
	if own := d.cluster(); own != "" && cluster != own {
		return fleet.Errorf(fleet.WrongCluster, "this node belongs to the cluster %s; a peer of %s answered", own, cluster).
			WithHint("correct the peers' addresses, or start the agent with an empty data directory to move the node")
	}
	return nil
}

// joined records the cluster at the first registration.
func (d *disk) joined(cluster string) error {
	if err := d.belongs(cluster); err != nil || d.cluster() == cluster {
		return err
	}
	return d.change(func(b *book) { b.Cluster = cluster })
}

// note records a list of orders. What the list leaves out is kept: a missing row is no order.
func (d *disk) note(o wire.Orders) error {
	return d.change(func(b *book) {
		b.Seen = o.Index
		for _, order := range o.Orders {
			i, ok := b.find(order.Replica)
			if !ok {
				b.Orders = slices.Insert(b.Orders, i, entry{Order: order})
			} else if !order.ID.Before(b.Orders[i].Order.ID) {
				b.Orders[i].Order = order
			}
		}
	})
}

// door records where a replica is reached.
func (d *disk) door(replica string, door fleet.Door) error {
	d.mu.Lock()
	i, ok := d.book.find(replica)
	known := !ok || d.book.Orders[i].Door != nil && *d.book.Orders[i].Door == door
	d.mu.Unlock()
	if known {
		return nil
	}
	return d.change(func(b *book) {
		if i, ok := b.find(replica); ok {
			b.Orders[i].Door = &door
		}
	})
}

// forget removes a shard whose end the peers have taken in.
func (d *disk) forget(replica string) error {
	return d.change(func(b *book) {
		if i, ok := b.find(replica); ok {
			b.Orders = slices.Delete(b.Orders, i, i+1)
		}
	})
}

func (b *book) find(replica string) (int, bool) {
	return slices.BinarySearchFunc(b.Orders, replica, func(e entry, r string) int { return cmp.Compare(e.Order.Replica, r) })
}
