package scheduler

import (
	"fmt"

	"berth/fleet"
	"berth/scheduler/capacity"
)

// Explanation says where one more replica of a model could go, or why nowhere.
type Explanation struct {
	Model    string         `json:"model"`
	Want     int            `json:"want"`
	Ready    int            `json:"ready"`
	Starting int            `json:"starting"`
	Lost     int            `json:"lost"`
	Needs    string         `json:"needs"`
	Place    []fleet.Shard  `json:"place,omitempty"`   // where the next replica would go now
	Refusal  *fleet.Refusal `json:"refusal,omitempty"` // set when nowhere, or when the plan holds it back
	Nodes    []Verdict      `json:"nodes"`
}

// Verdict is what stands between one model and one node; an empty Reason is nothing.
type Verdict struct {
	Node   string `json:"node,omitempty"`
	Model  string `json:"model,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Explain answers for one model of the snapshot; false when there is none of that name. The room that other models of the plan take is taken.
func Explain(s Snapshot, model string) (Explanation, bool) {
	p := newPlanner(s)
	m := p.models[model]
	if m == nil {
		return Explanation{}, false
	}
	for _, o := range p.inOrder() {
		p.model(o)
	}
	c := p.cast(m)
	f := p.finder(m)
	e := Explanation{Model: model, Want: m.Want, Lost: len(c.lost), Needs: shape(&m.Spec), Nodes: make([]Verdict, 0, len(s.Nodes))}
	e.Ready = ready(c.staying) + ready(c.leaving)
	e.Starting = len(c.staying) + len(c.leaving) - e.Ready
	for _, r := range p.plan.Refusals {
		if r.Model == model {
			e.Refusal = &r
		}
	}
	e.Place = p.planned(model)
	if e.Place == nil {
		e.Place, _ = f.find()
	}
	if e.Place == nil && e.Refusal == nil {
		r := p.explain(m.Name(), f)
		r.Model = model
		e.Refusal = &r
	}
	home := f.bestFabric()
	for _, h := range f.cards.Hosts {
		e.Nodes = append(e.Nodes, Verdict{Node: h.Node.Name, Reason: f.stands(h, home)})
	}
	return e, true
}

// planned returns where this plan places the first replica of the model, or nil.
func (p *planner) planned(model string) []fleet.Shard {
	for _, item := range p.plan.Items {
		if item.Place != nil && item.Place.Model == model {
			return item.Place.Shards
		}
	}
	return nil
}

// stands is why without the reasons that are none.
func (f *finder) stands(h *capacity.Host, home string) string {
	if f.feasible(h) && (f.spec.Placement.Nodes == 1 || h.Fabric == home) {
		return ""
	}
	return f.why(h, home)
}

// feasible says whether the host could take one shard now.
func (f *finder) feasible(h *capacity.Host) bool {
	return f.admit.refuse(h) == "" && f.roomy(h) && f.whyCards(h).text == ""
}

// NodeExplanation says what a node's cards are held by, and which models could have one more replica, or a shard of one, there.
type NodeExplanation struct {
	Node   string        `json:"node"`
	State  string        `json:"state"`
	Cards  []CardVerdict `json:"cards"`
	Models []Verdict     `json:"models"`
}

// CardVerdict is one card and what keeps it from being free; an empty Reason is nothing.
type CardVerdict struct {
	GPU    string `json:"gpu"`
	Index  int    `json:"index"`
	Class  string `json:"class"`
	Reason string `json:"reason,omitempty"`
}

// ExplainNode answers for one node of the snapshot; false when there is none of that name.
func ExplainNode(s Snapshot, node string) (NodeExplanation, bool) {
	p := newPlanner(s)
	h := p.room().cards.Host(node)
	if h == nil {
		return NodeExplanation{}, false
	}
	e := NodeExplanation{Node: node, State: string(h.Node.State()), Cards: []CardVerdict{}, Models: []Verdict{}}
	for i := range h.Cards {
		c := &h.Cards[i]
		e.Cards = append(e.Cards, CardVerdict{c.GPU.UUID, c.GPU.Index, c.Class, p.whyHeld(h, c)})
	}
	for _, m := range p.inOrder() {
		f := p.finder(m)
		e.Models = append(e.Models, Verdict{Model: m.Name(), Reason: f.stands(h, h.Fabric)})
	}
	return e, true
}

func (p *planner) whyHeld(h *capacity.Host, c *capacity.Card) string {
	for _, r := range p.Snapshot.Replicas {
		for _, s := range r.Shards {
			for _, claim := range s.Claims {
				if s.Node != h.Node.Name || s.Released || claim.GPU != c.GPU.UUID {
					continue
				}
				if claim.Share > 0 {
					return fmt.Sprintf("shared: %s of %s is claimed, by %s of %s first", c.Shared, c.GPU.Memory, r.ID, r.Model)
				}
				return fmt.Sprintf("held by %s of %s", r.ID, r.Model)
			}
		}
	}
	switch {
	case c.Held:
		return "held by something that Berth did not start"
	case c.GPU.Health != fleet.Healthy && c.GPU.Reason != "":
		return string(c.GPU.Health) + ": " + c.GPU.Reason
	case c.GPU.Health != fleet.Healthy:
		return string(c.GPU.Health)
	case !h.Ready:
		return "its node is " + notReady(h.Node)
	}
	return ""
}
