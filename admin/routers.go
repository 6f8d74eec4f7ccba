package admin

import (
	"context"
	"math"
	"net/http"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
)

func routerRoutes() []route {
	return []route{
		{method: http.MethodGet, path: "table", access: asRouter, where: caughtUp, does: "the routers' table (blocking)", handle: table},
		{method: http.MethodPost, path: "routers/{id}/report", access: asRouter, where: atLeader, does: "report use and demand", handle: report},
		{method: http.MethodGet, path: "routers", access: read, where: asAsked, does: "list the routers", handle: listRouters},
		{method: http.MethodGet, path: "routers/{id}", access: read, where: asAsked, does: "one router and what it last reported", handle: showRouter},
	}
}

func table(s *Server, q *request) (any, error) {
	ctx, cancel := context.WithCancel(q.Context())
	defer cancel()
	refused := s.Board.Refused()
	state, err := q.block(func(s *fsm.State) (fleet.Index, <-chan struct{}) {
		if closed(refused) { // nothing was agreed, but what waits for a model is to be told why it waits in vain
			return fleet.Index{Epoch: s.Index().Epoch, N: math.MaxUint64}, nil
		}
		return s.TableIndex(), either(ctx, s.WatchTable(), refused)
	})
	if err != nil {
		return nil, err
	}
	t := wire.Table{Version: wire.Version, Cluster: state.Cluster().ID, Index: state.Index(), Models: state.Table()}
	cannot := map[string]string{}
	for _, r := range s.Board.Brief(noIdle).Refusals {
		cannot[r.Model] = r.Reason
	}
	for i := range t.Models {
		if m := &t.Models[i]; len(m.Endpoints) == 0 && !loading(state, m.Name) {
			m.Cannot = cannot[m.Name]
		}
	}
	return t, nil
}

// loading says whether a replica of the model is on its way, so that who waits for it does not wait in vain.
func loading(state *fsm.State, model string) bool {
	for r := range state.ReplicasOf(model) {
		if r.State.Live() {
			return true
		}
	}
	return false
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// either is closed when one of the two is, or with the context.
func either(ctx context.Context, a, b <-chan struct{}) <-chan struct{} {
	ch := make(chan struct{})
	go func() { // ends with the request at the latest
		defer close(ch)
		select {
		case <-a:
		case <-b:
		case <-ctx.Done():
		}
	}()
	return ch
}

func report(s *Server, q *request) (any, error) {
	r, err := quick(q, wire.ReadReport)
	if err != nil {
		return nil, err
	}
	if err := fleet.CheckName("router", r.Router); err != nil {
		return nil, err
	}
	if r.Router != q.vars["id"] {
		return nil, fleet.Errorf(fleet.BadRequest, "the body speaks of the router %q and the path of %q", r.Router, q.vars["id"])
	}
	return s.Board.Report(r)
}

func listRouters(s *Server, q *request) (any, error) {
	rows := s.routerViews(q.from(s.Core.State()))
	for i := range rows {
		rows[i].Uses, rows[i].Demand = nil, nil // show has them
	}
	return page(q, rows, func(r wire.RouterView) string { return r.ID })
}

func showRouter(s *Server, q *request) (any, error) {
	for _, r := range s.routerViews(q.from(s.Core.State())) {
		if r.ID == q.vars["id"] {
			return r, nil
		}
	}
	return nil, fleet.Errorf(fleet.NotFound, "no router %s has reported to this leader", q.vars["id"]).WithHint("see berthctl routers")
}
