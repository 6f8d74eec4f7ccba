package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"berth/fleet/wire"
)

// selfPath is where a peer answers what only it knows of itself.
const selfPath = "/internal/v1/self"

// rosterPatience is how long a list of the peers waits for one that does not answer.
const rosterPatience = time.Second

func showSelf(s *Server, q *request) (any, error) {
	state := q.from(s.Core.State())
	return wire.PeerSelf{ID: s.Core.ID(), AppliedIndex: state.Index(), Fingerprint: state.Fingerprint()}, nil
}

// askPeers fills in what each peer says of itself. Fingerprints are hashes of the whole state, so they are made when somebody looks and not on
// every tick. A peer that does not answer in time keeps what the leader knows.
func (s *Server) askPeers(ctx context.Context, rows []wire.PeerView) {
	ctx, cancel := context.WithTimeout(ctx, rosterPatience)
	defer cancel()
	var asked sync.WaitGroup
	for i := range rows {
		row := &rows[i]
		if row.ID == s.Core.ID() {
			state := s.Core.State()
			row.AppliedIndex, row.Fingerprint = state.Index().String(), state.Fingerprint()
			continue
		}
		if row.HTTP == "" {
			continue
		}
		asked.Go(func() {
			if self, err := s.askPeer(ctx, row.HTTP); err == nil && self.ID == row.ID {
				row.AppliedIndex, row.Fingerprint = self.AppliedIndex.String(), self.Fingerprint
			}
		})
	}
	asked.Wait()
}

func (s *Server) askPeer(ctx context.Context, address string) (wire.PeerSelf, error) {
	var self wire.PeerSelf
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+selfPath, nil)
	if err != nil {
		return self, err
	}
	res, err := s.proxy.RoundTrip(req)
	if err != nil {
		return self, err
	}
	defer res.Body.Close()
	return self, json.NewDecoder(http.MaxBytesReader(nil, res.Body, 64<<10)).Decode(&self)
}
