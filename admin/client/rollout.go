package client

import (
	"context"
	"net/http"
	"net/url"

	"berth/fleet/wire"
)

// Rollout reads where a model's rollout stands.
func (c *Client) Rollout(ctx context.Context, model string, o ReadOptions) (wire.RolloutView, Meta, error) {
	return get[wire.RolloutView](ctx, c, "rollouts/"+url.PathEscape(model), o.query())
}

// PauseRollout stops a model's rollout where it is, or lets it go on.
func (c *Client) PauseRollout(ctx context.Context, model string, paused bool) (wire.ApplyAnswer, error) {
	verb := "resume"
	if paused {
		verb = "pause"
	}
	return answer[wire.ApplyAnswer](ctx, c, Call{Method: http.MethodPost, Path: "rollouts/" + verb + "/" + url.PathEscape(model)})
}
