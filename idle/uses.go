package idle

import (
	"time"

	"berth/fleet/wire"
	"berth/idle/recent"
)

// uses keeps what one router has itself seen used since its boot: its reports are deltas, and a person who asks what it has served asks for all of
// it. A replica that it has not named has no entry. Merging does not need this; the ledger's rows do not say which router told of a use.
type uses struct {
	boot uint64
	at   map[string]time.Duration // by replica, on the leader's clock
}

// take adds a report; one of a new boot, or one that holds everything, begins anew.
func (s *uses) take(now time.Duration, r wire.Report) {
	if s.at == nil || r.Boot != s.boot || r.All {
		s.boot, s.at = r.Boot, make(map[string]time.Duration, len(r.Uses))
	}
	for id, u := range r.Uses {
		if !validID(id) {
			continue
		}
		at, _ := moment(now, u.Age)
		if u.InFlight != 0 {
			at = now
		}
		if old, ok := s.at[id]; !ok || at > old {
			s.at[id] = at
		}
	}
}

// list gives the uses with their ages, and what was in flight in the router's last report. Replicas that the ledger has forgotten are dropped.
func (s *uses) list(now time.Duration, last wire.Report, known *recent.Map[replica]) map[string]wire.Use {
	out := make(map[string]wire.Use, len(s.at))
	for id, at := range s.at {
		if known.Entry(id) == nil {
			delete(s.at, id)
			continue
		}
		out[id] = wire.Use{Age: max(0, now-at).Seconds(), InFlight: last.Uses[id].InFlight}
	}
	return out
}
