package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"berth/admin/client"
	"berth/fsm"
)

// operator does what people do to a cluster, one thing at a time.
type operator struct {
	*user
	busy bool
	file []byte // of a restore whose outcome is not known yet
}

// ask lets the operator do something beside, unless it is at work.
func (w *world) ask(ctx context.Context, what string, do func(*operator) error) string {
	o := w.operator
	if o.busy {
		return ""
	}
	o.busy = true
	w.wg.Go(func() {
		err := do(o)
		w.do(func() { o.busy = false })
		w.story.say("operator", "%s: %v", what, orDone(err))
		if err == nil {
			w.tally.add("done: "+strings.Fields(what)[0], 1)
		}
	})
	return "asked for: " + what
}

func orDone(err error) string {
	if err == nil {
		return "done"
	}
	return err.Error()
}

// anywhere asks the peers in turn until one has done it.
func (o *operator) anywhere(ctx context.Context, call client.Call) (err error) {
	for _, addr := range o.w.urls(o.dice) {
		if _, err = o.one(ctx, addr, call, nil); err == nil {
			return nil
		}
	}
	return err
}

func (o *operator) transfer(ctx context.Context) error {
	return o.anywhere(ctx, client.Call{Method: http.MethodPost, Path: "peers/transfer"})
}

func (o *operator) remove(ctx context.Context, id string) error {
	return o.anywhere(ctx, client.Call{Method: http.MethodDelete, Path: "peers/" + id})
}

func (o *operator) demote(ctx context.Context, id string) error {
	return o.anywhere(ctx, client.Call{Method: http.MethodPost, Path: "peers/" + id + "/demote"})
}

// restore saves a snapshot, waits a little, and brings it back. A restore of unknown outcome is repeated with the same file until it is known, so
// that each epoch's beginning is known.
func (o *operator) restore(ctx context.Context) error {
	if o.file == nil {
		if err := o.save(ctx); err != nil {
			return err
		}
		pause(ctx, time.Duration(o.dice.IntN(10))*time.Second)
	}
	var err error
	for _, addr := range append(o.w.urls(o.dice), o.w.urls(o.dice)...) {
		start := o.w.book.tick()
		_, err = o.one(ctx, addr, client.Call{Method: http.MethodPut, Path: "snapshot", Body: bytes.NewReader(o.file)}, nil)
		o.w.story.say(o.name, "restores at %s: %v", addr, orDone(err))
		if err == nil {
			o.w.book.noteRestored(start)
			o.file = nil
			return nil
		}
		if pause(ctx, time.Second); ctx.Err() != nil {
			break
		}
	}
	return err
}

func (o *operator) save(ctx context.Context) error {
	for _, addr := range o.w.urls(o.dice) {
		data, err := o.download(ctx, addr)
		if err != nil {
			continue
		}
		state, info, err := fsm.Load(bytes.NewReader(data))
		if err != nil {
			o.w.story.wrong("the snapshot saved at %s cannot be read: %v", addr, err)
			return err
		}
		if !o.w.book.noteFile(state) {
			return errors.New("the snapshot is of an epoch that has passed")
		}
		o.w.story.say(o.name, "saved a snapshot at %s of index %s", addr, info.Index)
		o.file = data
		return nil
	}
	return errors.New("no peer gives a snapshot")
}

func (o *operator) download(ctx context.Context, addr string) ([]byte, error) {
	c, err := client.New(client.Config{Addrs: []string{addr}, HTTP: o.http, Agent: o.name})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	body, _, err := c.Open(ctx, client.Call{Path: "snapshot", Query: url.Values{}, Once: true})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// noteFile keeps what a snapshot file holds, if it is of the newest epoch known.
func (b *book) noteFile(s *fsm.State) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := restore{after: s.Cluster().Epoch, holds: map[string]string{}}
	for _, e := range b.epochs {
		if e.epoch > r.after {
			return false
		}
	}
	for i := range registers {
		key := registerName(i)
		if m, ok := s.Model(key); ok {
			r.holds[key] = m.Spec.Labels[valueLabel]
		}
	}
	b.restores = append(b.restores, r)
	return true
}

// noteRestored keeps that the newest file is in force for all that begins from now on.
func (b *book) noteRestored(start int64) {
	end := b.tick()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.epochs = append(b.epochs, epochSeen{start, end, b.restores[len(b.restores)-1].after + 1, restoreDone})
}

func registerName(i int) string { return fmt.Sprintf("register-%d", 1+i) }

// peers asks for the configuration: id to whether it votes.
func (u *user) peers(ctx context.Context) (map[string]bool, error) {
	c, err := client.New(client.Config{Addrs: u.w.urls(u.dice), HTTP: u.http, Agent: u.name})
	if err != nil {
		return nil, err
	}
	list, _, err := c.Peers(ctx)
	out := map[string]bool{}
	for _, p := range list {
		if p.State != "discovered" {
			out[p.ID] = p.Voter
		}
	}
	return out, err
}
