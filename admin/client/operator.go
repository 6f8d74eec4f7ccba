package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

// ReadOptions are the query parameters that reads share.
type ReadOptions struct {
	Index       fleet.Index   // block until the answer is newer than this
	Wait        time.Duration // how long to block; 0: answer at once
	Consistency string        // default, stale, consistent
}

func (o ReadOptions) query() url.Values {
	q := url.Values{}
	if o.Wait > 0 {
		q.Set("index", o.Index.String())
		q.Set("wait", fleet.Duration(o.Wait).String())
	}
	if o.Consistency != "" {
		q.Set("consistency", o.Consistency)
	}
	return q
}

// Status reads the fleet's status document.
func (c *Client) Status(ctx context.Context, o ReadOptions) (wire.Status, Meta, error) {
	return get[wire.Status](ctx, c, "status", o.query())
}

// Idle reads the ledger: idle, quiet, as-of, who is silent.
func (c *Client) Idle(ctx context.Context) (wire.IdleAnswer, Meta, error) {
	return get[wire.IdleAnswer](ctx, c, "idle", nil)
}

// Models lists the models.
func (c *Client) Models(ctx context.Context, o ReadOptions) ([]wire.ModelView, Meta, error) {
	return list[wire.ModelView](ctx, c, "models", o.query())
}

// Model reads one model by name or alias.
func (c *Client) Model(ctx context.Context, name string) (wire.ModelView, Meta, error) {
	return get[wire.ModelView](ctx, c, "models/"+url.PathEscape(name), nil)
}

// ApplyOptions qualify Apply.
type ApplyOptions struct {
	IfMatch          string // Changed index of the model that is to be replaced; empty: whatever is there
	AllowUnplaceable bool   // accept a model that no registered node could ever hold
}

// Apply replaces the whole spec of a model, or creates it.
func (c *Client) Apply(ctx context.Context, spec fleet.ModelSpec, o ApplyOptions) (wire.ApplyAnswer, error) {
	call := Call{Method: http.MethodPut, Path: "models/" + url.PathEscape(spec.Name), Body: spec, Header: http.Header{}, Query: url.Values{}}
	if o.IfMatch != "" {
		call.Header.Set("If-Match", o.IfMatch)
	}
	if o.AllowUnplaceable {
		call.Query.Set("allow_unplaceable", "true")
	}
	return answer[wire.ApplyAnswer](ctx, c, call)
}

// Scale sets a model's min, and so how many replicas it runs.
func (c *Client) Scale(ctx context.Context, model string, replicas int) (wire.ApplyAnswer, error) {
	body := map[string]int{"replicas": replicas}
	return answer[wire.ApplyAnswer](ctx, c, Call{Method: http.MethodPut, Path: "scale/" + url.PathEscape(model), Body: body})
}

// DeleteModel deletes a model by draining its replicas.
func (c *Client) DeleteModel(ctx context.Context, model string) (wire.ApplyAnswer, error) {
	return answer[wire.ApplyAnswer](ctx, c, Call{Method: http.MethodDelete, Path: "models/" + url.PathEscape(model)})
}

// Replicas lists the replicas; the query may hold model, node and state.
func (c *Client) Replicas(ctx context.Context, filter url.Values) ([]wire.ReplicaView, Meta, error) {
	return list[wire.ReplicaView](ctx, c, "replicas", filter)
}

// Replica reads one replica.
func (c *Client) Replica(ctx context.Context, id string) (wire.ReplicaView, Meta, error) {
	return get[wire.ReplicaView](ctx, c, "replicas/"+url.PathEscape(id), nil)
}

// ReplicaDo stops or restarts a replica.
func (c *Client) ReplicaDo(ctx context.Context, id, verb, reason string) error {
	_, err := c.Do(ctx, Call{Method: http.MethodPost, Path: "replicas/" + url.PathEscape(id) + "/" + verb, Body: map[string]string{"reason": reason}}, nil)
	return err
}

// ReplicaLogs streams the output of a replica's engine: the last tail lines, and what follows if follow is set.
func (c *Client) ReplicaLogs(ctx context.Context, id string, shard, tail int, follow bool) (io.ReadCloser, error) {
	q := url.Values{"tail": {strconv.Itoa(tail)}, "shard": {strconv.Itoa(shard)}}
	if follow {
		q.Set("follow", "true")
	}
	body, _, err := c.Open(ctx, Call{Path: "replicas/" + url.PathEscape(id) + "/logs", Query: q})
	return body, err
}

// Nodes lists the nodes, those that only gossip knows among them.
func (c *Client) Nodes(ctx context.Context, o ReadOptions) ([]wire.NodeView, Meta, error) {
	return list[wire.NodeView](ctx, c, "nodes", o.query())
}

// Node reads one node.
func (c *Client) Node(ctx context.Context, name string) (wire.NodeView, Meta, error) {
	return get[wire.NodeView](ctx, c, "nodes/"+url.PathEscape(name), nil)
}

// NodeDo cordons or uncordons a node.
func (c *Client) NodeDo(ctx context.Context, name, verb, reason string) error {
	_, err := c.Do(ctx, Call{Method: http.MethodPost, Path: "nodes/" + url.PathEscape(name) + "/" + verb, Body: map[string]string{"reason": reason}}, nil)
	return err
}

// DrainNode starts a drain of a node, or joins the one that runs.
func (c *Client) DrainNode(ctx context.Context, name, reason string, deadline time.Duration) error {
	body := struct {
		Reason   string         `json:"reason"`
		Deadline fleet.Duration `json:"deadline"`
	}{reason, fleet.Duration(deadline)}
	_, err := c.Do(ctx, Call{Method: http.MethodPut, Path: "nodes/" + url.PathEscape(name) + "/drain", Body: body}, nil)
	return err
}

// UndrainNode cancels a node's drain.
func (c *Client) UndrainNode(ctx context.Context, name string) error {
	_, err := c.Do(ctx, Call{Method: http.MethodDelete, Path: "nodes/" + url.PathEscape(name) + "/drain"}, nil)
	return err
}

// ForgetNode forgets a node that is gone for good.
func (c *Client) ForgetNode(ctx context.Context, name string) error {
	_, err := c.Do(ctx, Call{Method: http.MethodDelete, Path: "nodes/" + url.PathEscape(name)}, nil)
	return err
}

// Routers lists the routers that have reported.
func (c *Client) Routers(ctx context.Context) ([]wire.RouterView, Meta, error) {
	return list[wire.RouterView](ctx, c, "routers", nil)
}

// Router reads one router and what it last reported.
func (c *Client) Router(ctx context.Context, id string) (wire.RouterView, Meta, error) {
	return get[wire.RouterView](ctx, c, "routers/"+url.PathEscape(id), nil)
}

// Peers lists the peers.
func (c *Client) Peers(ctx context.Context) ([]wire.PeerView, Meta, error) {
	return list[wire.PeerView](ctx, c, "peers", nil)
}

// PeerDo promotes or demotes a peer.
func (c *Client) PeerDo(ctx context.Context, id, verb string) error {
	_, err := c.Do(ctx, Call{Method: http.MethodPost, Path: "peers/" + url.PathEscape(id) + "/" + verb}, nil)
	return err
}

// MovePeer gives a peer another raft address; force does not ask who answers there and at the old one.
func (c *Client) MovePeer(ctx context.Context, id, raft string, force bool) error {
	query := url.Values{}
	if force {
		query.Set("force", "true")
	}
	_, err := c.Do(ctx, Call{Method: http.MethodPut, Path: "peers/" + url.PathEscape(id) + "/address", Query: query, Body: map[string]string{"raft": raft}}, nil)
	return err
}

// RemovePeer removes a peer from the cluster.
func (c *Client) RemovePeer(ctx context.Context, id string) error {
	_, err := c.Do(ctx, Call{Method: http.MethodDelete, Path: "peers/" + url.PathEscape(id)}, nil)
	return err
}

// TransferLeadership moves leadership to a peer, or to any other one when id is empty.
func (c *Client) TransferLeadership(ctx context.Context, id string) error {
	_, err := c.Do(ctx, Call{Method: http.MethodPost, Path: "peers/transfer", Body: map[string]string{"to": id}}, nil)
	return err
}

// SaveSnapshot streams a snapshot of the state.
func (c *Client) SaveSnapshot(ctx context.Context, stale bool) (io.ReadCloser, Meta, error) {
	q := url.Values{}
	if stale {
		q.Set("stale", "true")
	}
	return c.Open(ctx, Call{Path: "snapshot", Query: q})
}

// VerifySnapshot sends a snapshot file for a dry run.
func (c *Client) VerifySnapshot(ctx context.Context, file io.Reader) (wire.SnapshotInfo, error) {
	return answer[wire.SnapshotInfo](ctx, c, Call{Method: http.MethodPost, Path: "snapshot/verify", Body: file})
}

// RestoreSnapshot replaces the whole state by a snapshot file.
func (c *Client) RestoreSnapshot(ctx context.Context, file io.Reader, force bool) (wire.SnapshotInfo, error) {
	q := url.Values{}
	if force {
		q.Set("force", "true")
	}
	return answer[wire.SnapshotInfo](ctx, c, Call{Method: http.MethodPut, Path: "snapshot", Query: q, Body: file})
}

// Freeze stops placement, eviction and unloading.
func (c *Client) Freeze(ctx context.Context, reason string) error {
	_, err := c.Do(ctx, Call{Method: http.MethodPut, Path: "freeze", Body: map[string]string{"reason": reason}}, nil)
	return err
}

// Thaw ends a freeze.
func (c *Client) Thaw(ctx context.Context) error {
	_, err := c.Do(ctx, Call{Method: http.MethodDelete, Path: "freeze"}, nil)
	return err
}

// Settings reads the cluster's settings.
func (c *Client) Settings(ctx context.Context) (fleet.Settings, Meta, error) {
	return get[fleet.Settings](ctx, c, "settings", nil)
}

// SetSettings changes the settings that are named, by their JSON names.
func (c *Client) SetSettings(ctx context.Context, change map[string]any) (fleet.Settings, error) {
	return answer[fleet.Settings](ctx, c, Call{Method: http.MethodPatch, Path: "settings", Body: change})
}

// Version reads the version of the peer that answers.
func (c *Client) Version(ctx context.Context) (wire.VersionAnswer, Meta, error) {
	return get[wire.VersionAnswer](ctx, c, "version", nil)
}

// Events reads history: since (the seq of the last event known, or an age such as 2h), node, model, replica.
func (c *Client) Events(ctx context.Context, q url.Values) ([]wire.Event, Meta, error) {
	return list[wire.Event](ctx, c, "events", q)
}

func get[T any](ctx context.Context, c *Client, path string, q url.Values) (T, Meta, error) {
	var out T
	meta, err := c.Do(ctx, Call{Path: path, Query: q}, &out)
	return out, meta, err
}

func answer[T any](ctx context.Context, c *Client, call Call) (T, error) {
	var out T
	_, err := c.Do(ctx, call, &out)
	return out, err
}

// list reads every page.
func list[T any](ctx context.Context, c *Client, path string, q url.Values) ([]T, Meta, error) {
	if q == nil {
		q = url.Values{}
	}
	items := []T{}
	for {
		page, meta, err := get[wire.List[T]](ctx, c, path, q)
		if err != nil {
			return nil, meta, err
		}
		items = append(items, page.Items...)
		if page.Next == "" {
			return items, meta, nil
		}
		q.Set("next", page.Next)
		q.Del("index")
		q.Del("wait")
	}
}

// Plan asks what applying these specs would do, changing nothing.
func (c *Client) Plan(ctx context.Context, specs []fleet.ModelSpec) (wire.PlanAnswer, error) {
	body := map[string][]fleet.ModelSpec{"models": specs}
	return answer[wire.PlanAnswer](ctx, c, Call{Method: http.MethodPost, Path: "plan", Body: body})
}

// ExplainModel asks why a model is not placed; a refusal without a reason means that it is.
func (c *Client) ExplainModel(ctx context.Context, model string) (fleet.Refusal, error) {
	return answer[fleet.Refusal](ctx, c, Call{Path: "explain/models/" + url.PathEscape(model)})
}

// ExplainNode asks what a node could take, and why not more.
func (c *Client) ExplainNode(ctx context.Context, node string) (string, error) {
	out, err := answer[struct {
		Text string `json:"text"`
	}](ctx, c, Call{Path: "explain/nodes/" + url.PathEscape(node)})
	return out.Text, err
}

// NodeDrain reads a node's drain, blocking until it may have changed.
func (c *Client) NodeDrain(ctx context.Context, node string, o ReadOptions) (wire.DrainView, Meta, error) {
	return get[wire.DrainView](ctx, c, "nodes/"+url.PathEscape(node)+"/drain", o.query())
}

// FollowEvents streams history as server-sent events, with the parameters of Events.
func (c *Client) FollowEvents(ctx context.Context, q url.Values) (io.ReadCloser, error) {
	body, _, err := c.Open(ctx, Call{Path: "events", Query: q, Header: http.Header{"Accept": {"text/event-stream"}}})
	return body, err
}
