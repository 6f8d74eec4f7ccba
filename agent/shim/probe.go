package shim

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/agent/shim/door"
	"berth/fleet"
)

// Defaults of a Recipe.
const (
	defaultEvery     = 500 * time.Millisecond
	defaultPatience  = 2 * time.Minute
	defaultHangAfter = 10 * time.Minute
)

// prober asks one start of an engine, directly and not through the door, so that it is never counted as a use.
type prober struct {
	recipe    Recipe
	key       string
	transport *http.Transport
}

func (l *life) newProber(apiKey string) *prober {
	r := l.cfg.Launch.Recipe
	r.Every = orDefault(r.Every, defaultEvery)
	r.Patience = orDefault(r.Patience, defaultPatience)
	r.HangAfter = orDefault(r.HangAfter, defaultHangAfter)
	if l.program.Engine == "" { // a headless rank: it is ready when it lives
		r.Health, r.Token, r.Progress = "", nil, nil
	}
	return &prober{recipe: r, key: apiKey, transport: door.Transport(l.cfg.Network, l.program.Engine)}
}

func orDefault(d fleet.Duration, def time.Duration) fleet.Duration {
	if d <= 0 {
		return fleet.Duration(def)
	}
	return d
}

func (p *prober) close() { p.transport.CloseIdleConnections() }

// untilReady takes the steps of the recipe, each until it holds. Its error is the context's end.
func (p *prober) untilReady(ctx context.Context) error {
	if p.recipe.Health != "" {
		if err := p.untilOK(ctx, http.MethodGet, p.recipe.Health, nil); err != nil {
			return err
		}
	}
	if t := p.recipe.Token; t != nil {
		return p.untilOK(ctx, http.MethodPost, t.Path, t.Body)
	}
	return ctx.Err()
}

func (p *prober) untilOK(ctx context.Context, method, path string, body []byte) error {
	tick := time.NewTicker(p.recipe.Every.Std())
	defer tick.Stop()
	for {
		if _, err := p.ask(ctx, method, path, body); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ask sends one request and gives the answer's body if its status is 200.
func (p *prober) ask(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.recipe.Patience.Std())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if p.key != "" {
		r.Header.Set("Authorization", "Bearer "+p.key)
	}
	res, err := p.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 8<<20))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: status %d", method, path, res.StatusCode)
	}
	return answer, err
}

// untilHung returns why the engine hangs, once it has had requests in flight for HangAfter and moved no token; "" when
// the context ends. An engine without counters, or that has not answered for one look, is given the time as well.
func (p *prober) untilHung(ctx context.Context, inFlight func() int) string {
	if len(p.recipe.Progress) == 0 {
		<-ctx.Done()
		return ""
	}
	hang := p.recipe.HangAfter.Std()
	tick := time.NewTicker(hang / 10)
	defer tick.Stop()
	moved, last := time.Now(), 0.0
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ""
		}
		n := inFlight()
		tokens, err := p.tokens(ctx, hang/10)
		if n == 0 || err == nil && tokens != last {
			moved, last = time.Now(), tokens
		}
		if d := time.Since(moved); d >= hang && ctx.Err() == nil {
			return fmt.Sprintf("hanging: no token moved for %s with %d requests in flight", d.Round(time.Second), n)
		}
	}
}

// tokens is the sum of the recipe's counters.
func (p *prober) tokens(ctx context.Context, patience time.Duration) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	text, err := p.ask(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return 0, err
	}
	return sumMetrics(text, p.recipe.Progress)
}

// sumMetrics adds the samples of the named metrics in Prometheus' text format.
func sumMetrics(text []byte, names []string) (sum float64, err error) {
	found := false
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		at := strings.IndexAny(line, "{ ")
		if at < 0 || !slices.Contains(names, line[:at]) {
			continue
		}
		fields := strings.Fields(line[strings.LastIndexByte(line, '}')+1:])
		if line[at] == ' ' {
			fields = fields[1:]
		}
		if len(fields) == 0 {
			continue
		}
		v, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return 0, fmt.Errorf("metric line %q: %w", line, err)
		}
		sum, found = sum+v, true
	}
	if !found {
		return 0, errors.New("none of the counters of progress is there")
	}
	return sum, lines.Err()
}
