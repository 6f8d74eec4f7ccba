package gossip

import (
	"cmp"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// State is what gossip last heard of a member.
type State string

// States of members. One that only just stopped answering is still alive.
const (
	Alive State = "alive"
	Dead  State = "dead" // it stopped answering
	Left  State = "left" // it said goodbye
)

// Member is a process that gossip knows of.
type Member struct {
	Meta            // its addresses are complete: an empty host is filled in
	ID       string // identity on its disk
	Instance uint64 // which start of that identity
	Gossip   string // host:port
	State    State
	Since    time.Time // when State began, by this machine's clock
}

// keepGone is how long a member that is dead or has left stays in the table, so that it is tried again.
const keepGone = 24 * time.Hour

// table is the view that this process has of the others. It is filled by memberlist's callbacks, which come with memberlist's
// locks held: nothing here waits or calls back.
type table struct {
	mu      sync.Mutex
	members map[string]Member // by label
	changed chan struct{}
}

func newTable() *table {
	return &table{members: make(map[string]Member), changed: make(chan struct{})}
}

// memberOf reads what memberlist has of a node; false if it is none of ours.
func memberOf(n *memberlist.Node) (Member, bool) {
	id, instance, ok := parseLabel(n.Name)
	meta, err := decodeMeta(n.Meta)
	if !ok || err != nil {
		return Member{}, false
	}
	host := n.Addr.String()
	for purpose, addr := range meta.Addresses {
		if h, port, err := net.SplitHostPort(addr); err == nil && h == "" {
			meta.Addresses[purpose] = net.JoinHostPort(host, port)
		}
	}
	return Member{Meta: meta, ID: id, Instance: instance, Gossip: n.Address()}, true
}

// put notes a member that lives, or changed what it says. Of two starts of one identity at one address the earlier is over: the port can
// have one owner. It may be heard of last, from someone who has not noticed yet.
func (t *table) put(key string, m Member, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m.State, m.Since = Alive, now
	if old, ok := t.members[key]; ok && old.State == Alive {
		m.Since = old.Since
	}
	if m.leaving {
		m.State, m.Since = Left, now
	}
	for other, o := range t.members {
		switch {
		case other == key:
		case o.State != Alive && now.Sub(o.Since) > keepGone:
			delete(t.members, other)
		case o.ID != m.ID || o.Gossip != m.Gossip:
		case o.Instance > m.Instance:
			m.State, m.Since = Dead, now
		case o.State == Alive:
			o.State, o.Since = Dead, now
			t.members[other] = o
		}
	}
	t.members[key] = m
	t.wake()
}

// disown notes that a member, one without a cluster until now, has turned out to be of another.
func (t *table) disown(key, cluster string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m, ok := t.members[key]; ok && m.Cluster != cluster {
		m.Cluster = cluster
		t.members[key] = m
		t.wake()
	}
}

// end notes that a member is gone. One that was taken for gone already stays as it is.
func (t *table) end(key string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m, ok := t.members[key]
	if !ok || m.State != Alive {
		return
	}
	m.State, m.Since = Dead, now
	t.members[key] = m
	t.wake()
}

func (t *table) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *table) watch() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changed
}

// list gives the members that are not of another cluster, by role, name, and newest start first. Earlier starts that are over are left
// out where a later one is alive.
func (t *table) list(cluster string) []Member {
	t.mu.Lock()
	defer t.mu.Unlock()
	newest := make(map[string]uint64)
	for _, m := range t.members {
		if m.State == Alive {
			newest[m.ID] = max(newest[m.ID], m.Instance)
		}
	}
	out := make([]Member, 0, len(t.members))
	for _, m := range t.members {
		over := m.State != Alive && m.Instance < newest[m.ID]
		if !over && !foreign(m.Cluster, cluster) {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID), cmp.Compare(b.Instance, a.Instance))
	})
	return out
}

// foreign says whether two members belong to different clusters; one that has none yet is no stranger to anyone.
func foreign(a, b string) bool { return a != "" && b != "" && a != b }
