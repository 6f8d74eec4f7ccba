package fsm

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"berth/fleet"
)

// requestWindow is how many requests are remembered.
const requestWindow = 65_536

// request is one remembered request: what it asked for and what it was answered.
type request struct {
	ID      string  `json:"id"`
	Hash    string  `json:"hash"` // of kind and body: the time and the asker's name may differ when it is repeated
	Outcome Outcome `json:"outcome"`
}

// RequestID makes the id of a write: "EPOCH.N-TOKEN". The index is any that its maker has read from the cluster (X-Berth-Index); the token
// makes it unique. Because an entry cannot lie before the index that its id names, a repeat that is no longer remembered can be told from a
// first attempt, and is refused too_old instead of being done twice. An id of another form is remembered as well, but only for as long as the
// window holds it.
func RequestID(seen fleet.Index, token string) string { return seen.String() + "-" + token }

// requestSeen returns the index that an id names, or false for an id of another form.
func requestSeen(id string) (fleet.Index, bool) {
	index, token, ok := strings.Cut(id, "-")
	if !ok || token == "" {
		return fleet.Index{}, false
	}
	seen, err := fleet.ParseIndex(index)
	return seen, err == nil
}

// recall returns the answer that a request has had, or the refusal of one that cannot be a first attempt. Only when it returns false is the
// command to be applied.
func (tx *txn) recall(hash string) (Outcome, bool) {
	id := tx.meta.Request
	if id == "" {
		return Outcome{}, false
	}
	if old, ok := tx.requests.get(id); ok {
		if old.Hash != hash {
			return tx.refuse(fleet.Errorf(fleet.Conflict, "the request id %s was used for another request, at index %s", id, old.Outcome.Index).
				WithHint("one id for one request: repeat it with the same body, or make a new id")), true
		}
		return old.Outcome, true
	}
	seen, ok := requestSeen(id)
	switch {
	case !ok:
		return Outcome{}, false
	case seen.Before(tx.core.Floor) || seen.Epoch < tx.core.Cluster.Epoch:
		return tx.refuse(fleet.Errorf(fleet.TooOld, "the request id %s was made before the requests that are remembered (the last %d, since index %s)",
			id, requestWindow, tx.core.Floor).WithHint("look whether it was done, then ask again with a new id")), true
	case !seen.Before(tx.at):
		return tx.refuse(fleet.Errorf(fleet.BadRequest, "the request id %s names an index after this entry's, %s", id, tx.at).
			WithHint("make the id from an X-Berth-Index that this cluster has answered")), true
	}
	return Outcome{}, false
}

// remember keeps the answer of a request, a rejection too, and evicts the oldest ones. Two entries never have one index, so the index orders
// them.
func (tx *txn) remember(hash string, o Outcome) {
	id := tx.meta.Request
	if id == "" {
		return
	}
	if tx.base.requests.size() >= requestWindow {
		tx.evictRequest()
	}
	tx.putRequest(&request{ID: id, Hash: hash, Outcome: o})
}

func (tx *txn) putRequest(r *request) {
	tx.requests.put(r.ID, r)
	tx.requestAt.put(indexKey(r.Outcome.Index), &r.ID)
}

func (tx *txn) evictRequest() {
	id, _ := tx.requestAt.first()
	old, _ := tx.requests.get(*id)
	tx.requests.del(*id)
	tx.requestAt.del(indexKey(old.Outcome.Index))
	tx.core.Floor = old.Outcome.Index
}

// bodyHash is what tells whether two requests of one id ask for the same.
func bodyHash(e envelope) string {
	h := sha256.New()
	h.Write([]byte(e.Kind))
	h.Write([]byte{0})
	h.Write(e.Body)
	return hex.EncodeToString(h.Sum(nil)[:16])
}
