package fsm

import (
	"berth/fleet"
)

// firstEpoch is the epoch of a new cluster: 0 is left to mean "before all history".
const firstEpoch = 1

func (tx *txn) createCluster(c ClusterCreate) *fleet.Error {
	have := tx.core.Cluster
	switch {
	case c.ID == "":
		return fleet.Errorf(fleet.BadRequest, "a cluster needs an id")
	case have.ID == c.ID:
		return nil // whoever bootstraps may say it again
	case have.ID != "":
		return fleet.Errorf(fleet.WrongCluster, "this is the cluster %s; it cannot become %s", have.ID, c.ID)
	}
	tx.core.Cluster = fleet.Cluster{ID: c.ID, Epoch: firstEpoch, Level: 1, CreatedAt: tx.meta.At}
	tx.at.Epoch = firstEpoch
	tx.changed |= Cluster
	return nil
}

// announceServer refuses a server that does not understand the level in force: it would have to stop at the next entry of that level.
func (tx *txn) announceServer(c ServerAnnounce) *fleet.Error {
	s := c.Server
	if err := fleet.CheckName("peer", s.ID); err != nil {
		return fleet.AsError(err)
	}
	if s.MaxLevel < tx.core.Cluster.Level {
		return fleet.Errorf(fleet.LevelTooOld, "peer %s understands level %d; the cluster is at level %d", s.ID, s.MaxLevel, tx.core.Cluster.Level).
			WithHint("run a newer release on it")
	}
	old, known := tx.servers.get(s.ID)
	if known {
		s.Changed = old.Changed
		if *old == s {
			return nil
		}
	}
	s.Changed = tx.at
	tx.servers.put(s.ID, &s)
	tx.changed |= Cluster
	return nil
}

func (tx *txn) forgetServer(c ServerForget) *fleet.Error {
	if _, ok := tx.servers.get(c.ID); !ok {
		return fleet.Errorf(fleet.NotFound, "there is no peer %s", c.ID)
	}
	tx.servers.del(c.ID)
	tx.changed |= Cluster
	return nil
}

// raiseLevel needs every known server, voter or not, to understand the level. Machine.Apply has already stopped a peer that does not.
func (tx *txn) raiseLevel(c LevelRaise) *fleet.Error {
	if c.Level < tx.core.Cluster.Level {
		return fleet.Errorf(fleet.Conflict, "the cluster is at level %d; a level is never lowered, not to %d", tx.core.Cluster.Level, c.Level)
	}
	for _, s := range tx.servers.rows("") {
		if s.MaxLevel < c.Level {
			return fleet.Errorf(fleet.LevelTooOld, "peer %s understands level %d, not %d", s.ID, s.MaxLevel, c.Level).
				WithHint("upgrade it, or remove it")
		}
	}
	if c.Level != tx.core.Cluster.Level {
		tx.core.Cluster.Level = c.Level
		tx.changed |= Cluster
	}
	return nil
}

func (tx *txn) setSettings(c SettingsSet) *fleet.Error {
	if err := c.Settings.Check(); err != nil {
		return fleet.AsError(err)
	}
	if c.Settings != tx.core.Settings {
		tx.core.Settings = c.Settings
		tx.changed |= Cluster
	}
	return nil
}

// setFreeze keeps the first freeze when a second one is set, but takes its reason: the fleet has been frozen since the first.
func (tx *txn) setFreeze(c FreezeSet) *fleet.Error {
	old := tx.core.Freeze
	if c.Freeze == nil {
		if old != nil {
			tx.core.Freeze = nil
			tx.changed |= Cluster
		}
		return nil
	}
	f := *c.Freeze
	if f.Reason == "" {
		return fleet.Errorf(fleet.BadRequest, "a freeze needs a reason: whoever finds the fleet frozen must know why")
	}
	if f.By == "" {
		f.By = tx.meta.By
	}
	if f.At == 0 {
		f.At = tx.meta.At
	}
	if old != nil {
		f.At = old.At
		if f == *old {
			return nil
		}
	}
	tx.core.Freeze = &f
	tx.changed |= Cluster
	return nil
}

// raiseEpoch makes this entry the first of the new epoch.
func (tx *txn) raiseEpoch(c EpochRaise) *fleet.Error {
	if c.Epoch <= tx.core.Cluster.Epoch {
		return fleet.Errorf(fleet.StaleEpoch, "the cluster is in epoch %d; an epoch is never lowered, not to %d", tx.core.Cluster.Epoch, c.Epoch)
	}
	tx.core.Cluster.Epoch = c.Epoch
	tx.at.Epoch = c.Epoch
	tx.changed |= Cluster
	return nil
}
