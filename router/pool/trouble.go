package pool

import "time"

// Verdict is how a request ended, as far as it says something about the replica.
type Verdict int

// Verdicts.
const (
	Nothing  Verdict = iota // the client's doing, or no evidence: a client error, a client that went away
	Served                  // the replica answered
	Failed                  // the replica broke off or answered with a server error; several in a row set it aside
	Refused                 // no connection: set aside at once
	Shut                    // its door refused for now: no fault, tried again in a moment
	WrongKey                // its door does not know the key: dropped until the next table
)

// How long a replica is set aside, and after how much.
const (
	shutPause     = 250 * time.Millisecond // a door that refused is asked again
	failuresToTry = 5                      // failures in a row that set a replica aside
	firstAside    = time.Second            // doubled with each failed trial
	lastAside     = 30 * time.Second
)

// trouble is what stands between a replica and requests beside its load. Its zero value is none.
type trouble struct {
	failures int       // in a row
	aside    time.Time // until then it gets nothing; zero: not set aside
	pause    time.Duration
	trying   bool // set aside before; one request tries it now
	shut     time.Time
	hung     bool // set aside because its tokens did not move; only a move ends that
	wrongKey bool // as if it were not in the table
}

// any says whether there is something to look at, so that the usual choice reads no clock.
func (t *trouble) any() bool { return *t != trouble{} }

// open says whether failures have set the replica aside, be it that a trial is due.
func (t *trouble) open() bool { return t.pause > 0 }

func (t *trouble) obstacle(now time.Time) (lack, time.Time) {
	switch {
	case t.open() && now.Before(t.aside):
		return lacksHealth, t.aside
	case t.open() && t.trying:
		return lacksRoom, time.Time{}
	case now.Before(t.shut):
		return lacksRoom, t.shut
	}
	return lacksReplica, time.Time{}
}

// learn takes a verdict. trial says that it is of the request that tried a replica which was set aside.
func (t *trouble) learn(v Verdict, trial bool, now time.Time) {
	if trial {
		t.trying = false
	}
	switch v {
	case Served:
		*t = trouble{wrongKey: t.wrongKey}
	case Failed:
		if t.failures++; t.failures >= failuresToTry || trial {
			t.setAside(now, trial)
		}
	case Refused:
		t.failures++
		t.setAside(now, trial)
	case Shut:
		t.shut = now.Add(shutPause)
	case WrongKey:
		t.wrongKey = true
	}
}

// setAside opens the breaker. Only a failed trial doubles the pause: the many requests of one burst are one piece of
// evidence.
func (t *trouble) setAside(now time.Time, trial bool) {
	if t.open() && !trial {
		return
	}
	t.pause = min(max(2*t.pause, firstAside), lastAside)
	t.aside = now.Add(t.pause)
}

func (m *model) countTrouble() {
	m.troubled = 0
	for _, r := range m.replicas {
		if r.trouble.any() {
			m.troubled++
		}
	}
}
