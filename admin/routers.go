package admin

import (
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
	state, err := q.block(func(s *fsm.State) (fleet.Index, <-chan struct{}) { return s.TableIndex(), s.WatchTable() })
	if err != nil {
		return nil, err
	}
	t := wire.Table{Version: wire.Version, Cluster: state.Cluster().ID, Index: state.Index(), Models: state.Table()}
	cannot := map[string]string{}
	for _, r := range s.Board.Observed().Refusals {
		cannot[r.Model] = r.Reason
	}
	for i := range t.Models {
		if len(t.Models[i].Endpoints) == 0 {
			t.Models[i].Cannot = cannot[t.Models[i].Name]
		}
	}
	return t, nil
}

func report(s *Server, q *request) (any, error) {
	var r wire.Report
	if err := q.lenient(&r); err != nil {
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
