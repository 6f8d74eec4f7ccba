package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"berth/demo/chat"
	"berth/demo/stage"
	"berth/fleet/wire"
)

// sameStatus asks each peer that runs for the whole status and compares what is not an age.
func (s *script) sameStatus(ctx context.Context) (string, error) {
	var index string
	err := stage.Until(ctx, 15*time.Second, func(ctx context.Context) error {
		var first string
		for _, p := range stage.Alive(s.Peers) {
			a, err := s.CtlAt(ctx, p.Addr, "", "status", "--json")
			if err != nil {
				return err
			}
			text, n, err := ageless(a.Out)
			if err != nil {
				return fmt.Errorf("%s: %w: %s", p.Name, err, a.Err)
			}
			if first != "" && text != first {
				return fmt.Errorf("%s says %s\nand not, as the other one, %s", p.Name, text, first)
			}
			first, index = text, n
		}
		return nil
	})
	return fmt.Sprintf("%d peers agree at index %s", len(stage.Alive(s.Peers)), index), err
}

// ageless is a status document without what differs between two readings: ages, and who answered.
func ageless(text string) (plain, index string, err error) {
	var doc map[string]any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return "", "", err
	}
	delete(doc, "peer")
	dropAges(doc)
	b, err := json.Marshal(doc)
	return string(b), fmt.Sprint(doc["index"]), err
}

// dropAges removes every field whose name says that it is a duration.
func dropAges(v any) {
	switch x := v.(type) {
	case map[string]any:
		for name, sub := range x {
			if strings.HasSuffix(name, "_seconds") || strings.HasSuffix(name, "_ms") {
				delete(x, name)
				continue
			}
			dropAges(sub)
		}
	case []any:
		for _, sub := range x {
			dropAges(sub)
		}
	}
}

func (s *script) bringPeerBack(ctx context.Context) (string, error) {
	if err := s.killed.Start(); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s has the fingerprint of the others", s.killed.Name), s.equal(ctx)
}

// equal waits until all peers are voters at the same index with the same fingerprint.
func (s *script) equal(ctx context.Context) error {
	return stage.Until(ctx, 30*time.Second, func(ctx context.Context) error {
		peers, err := stage.JSON[[]wire.PeerView](ctx, s.Stage, "peers")
		if err != nil {
			return err
		}
		if len(peers) != len(s.Peers) {
			return fmt.Errorf("berthctl peers lists %d of %d", len(peers), len(s.Peers))
		}
		for _, p := range peers {
			f := peers[0]
			if p.Fingerprint == "" || p.AppliedIndex != f.AppliedIndex || p.Fingerprint != f.Fingerprint {
				return fmt.Errorf("%s (%s) is at index %q with fingerprint %q, %s at %q with %q", p.ID, p.State, p.AppliedIndex, p.Fingerprint, f.ID, f.AppliedIndex, f.Fingerprint)
			}
		}
		return nil
	})
}

// sleeper is a model that runs nothing until somebody asks for it.
const sleeper = `version: 1
kind: model
name: demo/sleeper
engine: {driver: sim, weights: demo/sleeper, args: ["--load-time=1s", "--tokens-per-second=50"]}
placement: {gpus_per_node: 1, classes: [h100-sxm-80gb]}
replicas: {min: 0, max: 1}
drain: {deadline: 10s, minimum: 1s}
`

func (s *script) wake(ctx context.Context) (string, error) {
	a, err := s.Ctl(ctx, sleeper, "model", "apply", "-f", "-")
	if err == nil && a.Code != 0 {
		err = fmt.Errorf("berthctl model apply ended with %d: %s", a.Code, a.Err)
	}
	if err != nil {
		return "", err
	}
	var st *chat.Stream
	began := time.Now()
	err = stage.Until(ctx, 60*time.Second, func(ctx context.Context) error { // the router may not know the model yet
		st, err = s.open(ctx, "demo/sleeper", 10)
		if err != nil {
			return err
		}
		_, err = st.Rest()
		return err
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("a stream of 10 tokens ended %.1f s after it was asked for", time.Since(began).Seconds()), whole(st, 10)
}

func (s *script) snapshot(ctx context.Context) (string, error) {
	file := s.Path("demo.snapshot")
	if _, err := s.Do(ctx, "snapshot", "save", file); err != nil {
		return "", err
	}
	if _, err := s.Do(ctx, "model", "delete", unasked, "--yes"); err != nil {
		return "", err
	}
	if err := s.gone(ctx, unasked); err != nil {
		return "", err
	}
	said, err := s.Do(ctx, "snapshot", "restore", file, "--yes")
	if err != nil {
		return "", err
	}
	if err := s.satisfied(ctx, 4); err != nil {
		return "", err
	}
	began := time.Now()
	if err := stage.Until(ctx, 30*time.Second, s.embeds); err != nil {
		return "", fmt.Errorf("%s, whose engine had ended, does not answer: %w", unasked, err)
	}
	return fmt.Sprintf("%s; it answers after %.1f s", strings.TrimSpace(said), time.Since(began).Seconds()), s.equal(ctx)
}

// embeds asks the embedding model for an embedding.
func (s *script) embeds(ctx context.Context) error {
	body := strings.NewReader(`{"model": "` + unasked + `", "input": "ships"}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Routers[0].URL()+"/v1/embeddings", body)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if err == nil && (res.StatusCode != http.StatusOK || !strings.Contains(string(text), `"embedding"`)) {
		err = fmt.Errorf("status %d: %s", res.StatusCode, text)
	}
	return err
}

// gone waits until a deleted model has no replica left, so that its engine has ended.
func (s *script) gone(ctx context.Context, model string) error {
	return stage.Until(ctx, 30*time.Second, func(ctx context.Context) error {
		left, err := stage.JSON[[]wire.ReplicaView](ctx, s.Stage, "replicas", "--model", model)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%s of the deleted model %s is %s", left[0].ID, model, left[0].State)
		}
		return err
	})
}

func (s *script) deleteAll(ctx context.Context) (string, error) {
	models, err := stage.JSON[[]wire.ModelView](ctx, s.Stage, "models")
	if err != nil {
		return "", err
	}
	for _, m := range models {
		if _, err := s.Do(ctx, "model", "delete", m.Spec.Name, "--yes"); err != nil {
			return "", err
		}
	}
	err = stage.Until(ctx, 60*time.Second, func(ctx context.Context) error {
		left, err := stage.JSON[[]wire.ModelView](ctx, s.Stage, "models")
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%d models are left, the first is %s and %s", len(left), left[0].Spec.Name, left[0].State)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d models gone, no engine runs", len(models)), s.noEngine(ctx)
}

// noEngine waits until no engine runs. Shims stay for a minute: a shut door goes on refusing, for routers that have not heard of its end.
func (s *script) noEngine(ctx context.Context) error {
	return stage.Until(ctx, 20*time.Second, func(context.Context) error {
		for _, p := range s.Marked() {
			if len(p.Command) > 1 && p.Command[1] == "engine" {
				return fmt.Errorf("still running: %s", p)
			}
		}
		return nil
	})
}
