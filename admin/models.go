package admin

import (
	"net/http"
	"slices"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/fsm"
)

func modelRoutes() []route {
	return []route{
		{method: http.MethodGet, path: "models", access: read, where: asAsked, does: "list the models", handle: listModels},
		{method: http.MethodPost, path: "plan", access: read, where: asAsked, does: "what would applying these specs do (dry run)", handle: dryRun},
		{method: http.MethodGet, path: "explain/models/{model}", access: read, where: asAsked, does: "why a model is not placed", handle: explainModel},
		{method: http.MethodPut, path: "scale/{model}", access: write, where: atLeader, does: "set how many replicas a model runs", handle: scaleModel},
		{method: http.MethodGet, path: "models/{model}", access: read, where: asAsked, does: "one model, by name or alias", handle: showModel},
		{method: http.MethodPut, path: "models/{model}", access: write, where: atLeader, does: "apply a model's whole spec", handle: applyModel},
		{method: http.MethodDelete, path: "models/{model}", access: write, where: atLeader, does: "delete a model by draining its replicas", handle: deleteModel},
	}
}

func listModels(s *Server, q *request) (any, error) {
	state, err := q.block(anyOf(fsm.Models, fsm.Replicas))
	if err != nil {
		return nil, err
	}
	return page(q, s.modelViews(state), func(m wire.ModelView) string { return m.Spec.Name })
}

func showModel(s *Server, q *request) (any, error) {
	state, err := q.block(anyOf(fsm.Models, fsm.Replicas))
	if err != nil {
		return nil, err
	}
	m, err := findModel(state, q.vars["model"])
	if err != nil {
		return nil, err
	}
	views := s.modelViews(state)
	i := slices.IndexFunc(views, func(v wire.ModelView) bool { return v.Spec.Name == m.Name() })
	return views[i], nil
}

func findModel(state *fsm.State, name string) (*fleet.Model, error) {
	if m, ok := state.ModelByAlias(name); ok {
		return m, nil
	}
	return nil, fleet.Errorf(fleet.NotFound, "no model %s", name).WithHint("names keep their case; see berthctl models")
}

func applyModel(s *Server, q *request) (any, error) {
	spec := fleet.DefaultedSpec()
	if err := q.body(&spec); err != nil {
		return nil, err
	}
	if spec.Name != q.vars["model"] {
		return nil, fleet.Errorf(fleet.BadRequest, "the body names the model %q and the path %q", spec.Name, q.vars["model"])
	}
	if err := spec.Check(); err != nil {
		return nil, err
	}
	match, err := q.ifMatch()
	if err != nil {
		return nil, err
	}
	if q.URL.Query().Get("allow_unplaceable") != "true" { // it looks at every node, which is not for nothing
		if err := s.Planner.Fits(spec); err != nil {
			return nil, err
		}
	}
	return applied(q.propose(fsm.ModelApply{Spec: spec, IfMatch: match}))
}

func applied(out fsm.Outcome, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return wire.ApplyAnswer{Index: out.Index, Generation: out.Generation, Changed: out.Changed}, nil
}

func scaleModel(s *Server, q *request) (any, error) {
	var body struct {
		Replicas *int `json:"replicas"`
	}
	if err := q.body(&body); err != nil {
		return nil, err
	}
	if body.Replicas == nil || *body.Replicas < 0 {
		return nil, fleet.Errorf(fleet.BadRequest, "replicas must be a whole number of at least 0")
	}
	return applied(q.propose(fsm.ModelScale{Model: modelName(s.Core.State(), q.vars["model"]), Replicas: *body.Replicas}))
}

// modelName resolves an alias. That there is no such model is for the state machine to say: a write that is repeated, after the first attempt has
// done it, must get the first answer, and only the state machine remembers that.
func modelName(state *fsm.State, name string) string {
	if m, ok := state.ModelByAlias(name); ok {
		return m.Name()
	}
	return name
}

func deleteModel(s *Server, q *request) (any, error) {
	match, err := q.ifMatch()
	if err != nil {
		return nil, err
	}
	return applied(q.propose(fsm.ModelDelete{Model: modelName(s.Core.State(), q.vars["model"]), IfMatch: match}))
}

func dryRun(s *Server, q *request) (any, error) {
	var body struct {
		Models []fleet.ModelSpec `json:"models"`
	}
	if err := q.body(&body); err != nil {
		return nil, err
	}
	if len(body.Models) == 0 {
		return nil, fleet.Errorf(fleet.BadRequest, "models is empty; a dry run needs at least one spec")
	}
	for _, spec := range body.Models {
		if err := spec.Check(); err != nil {
			return nil, err
		}
	}
	plan, err := s.Planner.DryRun(body.Models)
	if err != nil {
		return nil, err
	}
	return wire.PlanAnswer{Items: plan.Items, Refusals: plan.Refusals}, nil
}

func explainModel(s *Server, q *request) (any, error) {
	m, err := findModel(s.Core.State(), q.vars["model"])
	if err != nil {
		return nil, err
	}
	return s.Planner.ExplainModel(m.Name())
}
