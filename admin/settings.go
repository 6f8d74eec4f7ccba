package admin

import (
	"net/http"

	"berth/fleet"
	"berth/fsm"
)

func settingRoutes() []route {
	return []route{
		{method: http.MethodPut, path: "freeze", access: write, where: atLeader, does: "stop placement, eviction and unloading", handle: freeze},
		{method: http.MethodDelete, path: "freeze", access: write, where: atLeader, does: "end a freeze", handle: thaw},
		{method: http.MethodGet, path: "settings", access: read, where: asAsked, does: "the cluster's settings", handle: showSettings},
		{method: http.MethodPatch, path: "settings", access: write, where: atLeader, does: "change the settings that are named", handle: setSettings},
	}
}

func freeze(_ *Server, q *request) (any, error) {
	why, err := q.reason()
	if err != nil {
		return nil, err
	}
	if why == "" {
		return nil, fleet.Errorf(fleet.BadRequest, "reason is empty; say why, whoever finds the fleet frozen at night will want to know")
	}
	m := q.meta()
	return applied(q.propose(fsm.FreezeSet{Freeze: &fleet.Freeze{Reason: why, By: m.By, At: m.At}}))
}

func thaw(_ *Server, q *request) (any, error) {
	return applied(q.propose(fsm.FreezeSet{}))
}

func showSettings(s *Server, q *request) (any, error) {
	return q.from(s.Core.State()).Settings(), nil
}

func setSettings(s *Server, q *request) (any, error) {
	settings := s.Core.State().Settings()
	if err := q.body(&settings); err != nil {
		return nil, err
	}
	if err := settings.Check(); err != nil {
		return nil, err
	}
	if _, err := q.propose(fsm.SettingsSet{Settings: settings}); err != nil {
		return nil, err
	}
	return s.Core.State().Settings(), nil
}
