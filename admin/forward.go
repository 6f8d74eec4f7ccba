package admin

import (
	"errors"
	"net"
	"net/http"
	"net/http/httputil"

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
		if mode != "consistent" && k.Leader == "" && q.route.path == "status" && k.CaughtUp {
			return false, nil // without a leader status still says what this peer knows, and that there is none
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
		FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = "http", k.LeaderHTTP
			p.Out.Host = k.LeaderHTTP
			p.Out.Header.Set(wire.HeaderForwarded, s.Core.ID())
			p.Out.Header.Set(headerCaller, q.caller())
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			s.freshness(w, k)
			s.fail(w, forwardError(q, k, err))
		},
		ErrorLog: nil,
	}
	w.Header().Del(wire.HeaderRequestID) // the leader's answer carries it
	proxy.ServeHTTP(w, q.Request)
}

// forwardError tells a write that may have happened from one that cannot have.
func forwardError(q *request, k Knowledge, err error) error {
	var op *net.OpError
	if q.route.access == read || errors.As(err, &op) && op.Op == "dial" {
		return fleet.Errorf(fleet.NoLeader, "the leader %s does not answer", k.Leader).WithHint("an election takes seconds; repeat the request")
	}
	return fleet.Errorf(fleet.OutcomeUnknown, "the leader %s broke off before it answered", k.Leader).WithHint("repeat the request with the same %s to find out", wire.HeaderRequestID)
}
