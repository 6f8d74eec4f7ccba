package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"time"

	"berth/admin/client"
	"berth/fleet/wire"
)

// watcher follows history of every peer and counts the replicas of each model that it has shown as placed.
type watcher struct {
	stop    context.CancelFunc
	follows sync.WaitGroup

	ended <-chan struct{}

	mu     sync.Mutex
	placed []map[string]int // by peer
	waits  map[string]waiting
	err    error
}

// waiting is for a number of replicas of one model.
type waiting struct {
	least   int
	reached chan struct{} // closed then
}

// patience is for how long a submitter waits for its placements.
const patience = 30 * time.Second

// watch begins to follow; its owner calls close.
func watch(ctx context.Context, peers []string) (*watcher, error) {
	ctx, stop := context.WithCancel(ctx)
	w := &watcher{stop: stop, ended: ctx.Done(), waits: map[string]waiting{}}
	for i, addr := range peers {
		w.placed = append(w.placed, map[string]int{})
		c, err := client.New(client.Config{Addrs: []string{addr}, Agent: "bench"})
		var body io.ReadCloser
		if err == nil {
			body, err = c.FollowEvents(ctx, url.Values{})
		}
		if err != nil {
			return nil, errors.Join(err, w.close())
		}
		w.follows.Go(func() {
			defer body.Close()
			if err := w.follow(i, body); ctx.Err() == nil {
				w.fail(fmt.Errorf("history of %s has ended: %w", addr, err))
			}
		})
	}
	return w, nil
}

// close ends all following and returns what went wrong with it.
func (w *watcher) close() error {
	w.stop()
	w.follows.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// follow reads one peer's history until it ends.
func (w *watcher) follow(peer int, body io.Reader) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e wire.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return err
		}
		if e.Kind == "replica" && strings.HasPrefix(e.Text, "placed") {
			w.note(peer, e.Model)
		}
	}
	return errors.Join(lines.Err(), io.ErrUnexpectedEOF)
}

func (w *watcher) note(peer int, model string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.placed[peer][model]++
	if x, ok := w.waits[model]; ok && w.everywhere(model) >= x.least {
		close(x.reached)
		delete(w.waits, model)
	}
}

func (w *watcher) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = errors.Join(w.err, err)
	w.stop()
}

// everywhere is how many replicas of the model every peer has shown as placed.
func (w *watcher) everywhere(model string) int {
	least := w.placed[0][model]
	for _, p := range w.placed {
		least = min(least, p[model])
	}
	return least
}

// wait returns when every peer has shown so many replicas of the model as placed. Nobody else may wait for that model.
func (w *watcher) wait(ctx context.Context, model string, n int) error {
	reached := make(chan struct{})
	w.mu.Lock()
	if w.everywhere(model) >= n {
		close(reached)
	} else {
		w.waits[model] = waiting{n, reached}
	}
	w.mu.Unlock()
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-reached:
		return nil
	case <-t.C:
		return fmt.Errorf("%d replicas of %s were not placed in %s", n, model, patience)
	case <-w.ended:
		return errors.New("no peer's history is followed any more")
	case <-ctx.Done():
		return ctx.Err()
	}
}
