package gossip

import (
	"errors"
	"time"

	"github.com/hashicorp/memberlist"
)

// delegate answers memberlist's callbacks. Most come with memberlist's locks held and from its packet loop: nothing in here may wait, or
// call memberlist.
type delegate struct{ g *Gossip }

var (
	_ memberlist.Delegate         = delegate{}
	_ memberlist.EventDelegate    = delegate{}
	_ memberlist.AliveDelegate    = delegate{}
	_ memberlist.MergeDelegate    = delegate{}
	_ memberlist.ConflictDelegate = delegate{}
)

// NodeMeta gives this member's metadata, which was checked against the budget when it was set.
func (d delegate) NodeMeta(int) []byte {
	d.g.selfLock.Lock()
	defer d.g.selfLock.Unlock()
	return d.g.encoded
}

// There is no user data in our gossip: what changes every second goes over HTTP to whoever needs it.
func (delegate) NotifyMsg([]byte)                {}
func (delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (delegate) LocalState(bool) []byte          { return nil }
func (delegate) MergeRemoteState([]byte, bool)   {}

func (d delegate) NotifyJoin(n *memberlist.Node)   { d.put(n) }
func (d delegate) NotifyUpdate(n *memberlist.Node) { d.put(n) }

func (d delegate) put(n *memberlist.Node) {
	if m, ok := memberOf(n); ok {
		d.g.table.put(n.Name, m, time.Now())
		d.g.adopt(m)
	}
}

// NotifyLeave comes for the dead and for those who leave alike; the latter have said so before, in their metadata.
func (d delegate) NotifyLeave(n *memberlist.Node) { d.g.table.end(n.Name, time.Now()) }

var errRefused = errors.New("refused")

// NotifyAlive keeps out who is gossiped about and belongs to another cluster, so that two clusters do not grow together through a
// member that once met both.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	if !d.g.welcome(n) {
		return errRefused
	}
	return nil
}

// NotifyMerge refuses a join, on either side of it, when the other side has members of another cluster.
func (d delegate) NotifyMerge(nodes []*memberlist.Node) error {
	var err error
	for _, n := range nodes {
		if !d.g.welcome(n) {
			err = errRefused
		}
	}
	return err
}

// welcome says whether a node may be a member here, and reports who may not.
func (g *Gossip) welcome(n *memberlist.Node) bool {
	m, ok := memberOf(n)
	cluster := g.cluster()
	switch {
	case !ok:
		g.say(Unreadable, n.Address(), "refused the member %q at %s: its release is too new or too old for this one, or it is no member of Berth", n.Name, n.Address())
	case foreign(m.Cluster, cluster):
		g.refusals.Add(1)
		g.table.disown(n.Name, m.Cluster)
		g.say(ForeignCluster, m.Gossip, "refused %s %s at %s: it belongs to cluster %s, and this is %s; check --join on both sides",
			m.Role, m.Name, m.Gossip, m.Cluster, cluster)
		ok = false
	}
	return ok
}

// NotifyConflict reports two live processes with one identity and one start count: the data directory was copied.
func (d delegate) NotifyConflict(existing, other *memberlist.Node) {
	id, _, _ := parseLabel(other.Name)
	d.g.say(DuplicateID, other.Name+" "+other.Address(), "the id %s is alive at %s and at %s: one is a copy of the other; stop it and remove its data directory",
		id, existing.Address(), other.Address())
}
