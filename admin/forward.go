package admin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

// place decides whether a request is forwarded to the leader, or why it cannot be answered.
func (s *Server) place(q *request, k Knowledge) (forward bool, err error) {
	mode := q.URL.Query().Get("consistency")
	switch mode {
	case "", "default", "stale", "consistent":
	default:
		return false, fleet.Errorf(fleet.BadRequest, "consistency is %q; write default, stale or consistent", mode)
	}
	switch q.route.where {
	case anyPeer:
		return false, nil
	case caughtUp:
		return false, s.requireCaughtUp(k)
	case asAsked:
		if mode == "stale" {
			return false, nil
		}
	case nearest:
		if mode == "stale" || mode != "consistent" && k.CaughtUp && (k.Leader == "" || s.hearsLeader(q)) {
			return false, nil // without a leader it still says what this peer knows, and that there is none
		}
	}
	if k.IsLeader {
		if mode == "consistent" && q.route.access == read {
			return false, s.Core.Verify(q.Context())
		}
		return false, s.requireCaughtUp(k)
	}
	if q.Header.Get(wire.HeaderForwarded) != "" || k.Leader == "" || k.LeaderHTTP == "" {
		return false, fleet.Errorf(fleet.NoLeader, "no leader is known to this peer").WithHint("an election takes seconds; reads can ask with ?consistency=stale")
	}
	return true, nil
}

// observedFor is the age up to which what a leader observed is as good as asking it: a follower hears it once a tick, and one relay may get lost.
const observedFor = 2500 * time.Millisecond

// hearsLeader says whether this peer knows of late what the leader observes. What has been forwarded is answered here in any case.
func (s *Server) hearsLeader(q *request) bool {
	age := s.Board.ObservedAge()
	return age >= 0 && age <= observedFor || q.Header.Get(wire.HeaderForwarded) != ""
}

// requireCaughtUp refuses to present what a peer has not yet read of its own log as the state of the fleet.
func (s *Server) requireCaughtUp(k Knowledge) error {
	if k.CaughtUp {
		return nil
	}
	return fleet.Errorf(fleet.NotReady, "this peer has not caught up since it started").WithHint("ask another peer, or wait a few seconds")
}

// forward sends the request to the leader, the same bytes and once.
func (s *Server) forward(w http.ResponseWriter, q *request, k Knowledge) {
	proxy := &httputil.ReverseProxy{
		Transport:     s.proxy,
		FlushInterval: flushInterval(q.route),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = "http", k.LeaderHTTP
			p.Out.Host = k.LeaderHTTP
			p.Out.Header.Set(wire.HeaderForwarded, s.Core.ID())
			p.Out.Header.Set(headerCaller, q.caller())
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if q.route.where == nearest && k.CaughtUp && q.URL.Query().Get("consistency") != "consistent" {
				s.run(w, q) // better what this peer knows, with its age, than nothing
				return
			}
			s.freshness(w, k)
			s.fail(w, forwardError(q, k, err))
		},
		ModifyResponse: func(r *http.Response) error {
			s.wrote(q, r)
			return nil
		},
		ErrorLog: nil,
	}
	w.Header().Del(wire.HeaderRequestID) // the leader's answer carries it
	// The leader may refuse a snapshot before it has read all of it; without this the server would read the rest away from the proxy first.
	_ = http.NewResponseController(w).EnableFullDuplex() // a writer that has nothing to enable needs nothing
	proxy.ServeHTTP(w, q.Request)
}

// flushInterval says how soon a piece of a forwarded answer is passed on: an answer that is made at once goes in one piece.
func flushInterval(r route) time.Duration {
	if r.stream || r.raw != nil {
		return -1 // each piece on arrival
	}
	return 0
}

// ownWriteWait bounds the wait of a read for what was written through this peer.
const ownWriteWait = time.Second

// wrote notes up to where this peer has passed writes on. A follower hears of a commit with the leader's next entry or heartbeat, up to 100 ms
// later; the write's answer does not wait for that, but a read that this peer answers by itself does: whoever writes through a peer and then reads
// its status sees what it wrote.
func (s *Server) wrote(q *request, r *http.Response) {
	index, err := fleet.ParseIndex(r.Header.Get(wire.HeaderIndex))
	if err != nil || q.route.access != write || q.route.stream {
		return
	}
	for old := s.passedOn.Load(); old < index.N && !s.passedOn.CompareAndSwap(old, index.N); old = s.passedOn.Load() {
	}
}

// awaitOwnWrites returns when this peer has applied what was written through it. Late is late: it waits once, and the answer's header says how far
// this peer is.
func (s *Server) awaitOwnWrites(ctx context.Context) {
	index := s.passedOn.Load()
	if index == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, ownWriteWait)
	defer cancel()
	_ = s.Core.WaitApplied(ctx, index)
	s.passedOn.CompareAndSwap(index, 0)
}

// forwardError tells a write that may have happened from one that cannot have.
func forwardError(q *request, k Knowledge, err error) error {
	var op *net.OpError
	if q.route.access == read || errors.As(err, &op) && op.Op == "dial" {
		return fleet.Errorf(fleet.NoLeader, "the leader %s does not answer", k.Leader).WithHint("an election takes seconds; repeat the request")
	}
	return fleet.Errorf(fleet.OutcomeUnknown, "the leader %s broke off before it answered", k.Leader).WithHint("repeat the request with the same %s to find out", wire.HeaderRequestID)
}
