package admin

import (
	"net/http"

	"berth/fleet"
	"berth/fsm"
)

func rolloutRoutes() []route {
	return []route{
		{method: http.MethodPost, path: "rollouts/pause/{model}", access: write, where: atLeader, does: "stop a rollout where it is", handle: pauseRollout(true)},
		{method: http.MethodPost, path: "rollouts/resume/{model}", access: write, where: atLeader, does: "let a paused rollout go on", handle: pauseRollout(false)},
		{method: http.MethodGet, path: "rollouts/{model}", access: read, where: asAsked, does: "where a model's rollout stands", handle: showRollout},
	}
}

func pauseRollout(paused bool) func(*Server, *request) (any, error) {
	return func(s *Server, q *request) (any, error) {
		m, err := findModel(s.Core.State(), q.vars["model"])
		if err != nil {
			return nil, err
		}
		return applied(q.propose(fsm.RolloutPause{Model: m.Name(), Paused: paused}))
	}
}

func showRollout(s *Server, q *request) (any, error) {
	state, err := q.block(anyOf(fsm.Models, fsm.Replicas))
	if err != nil {
		return nil, err
	}
	m, err := findModel(state, q.vars["model"])
	if err != nil {
		return nil, err
	}
	view, ok := s.Planner.Rollout(m.Name())
	if !ok {
		return nil, fleet.Errorf(fleet.NotFound, "no model %s", m.Name())
	}
	return view, nil
}
