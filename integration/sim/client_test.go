package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"berth/admin/client"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/listen"
)

// valueLabel is the label of a model in which a register keeps its value.
const valueLabel = "value"

// registers is how many registers the clients share.
const registers = 4

// user is one client of the API, on a host of its own.
type user struct {
	w    *world
	name string
	dice *rand.Rand
	http *http.Client
	seen fleet.Index // newest index answered, for request ids
	made int
	own  []string // models that it created and has not deleted
}

// users is how many of them there can be, the operator and the one that asks whether all is well included.
const users = 10

func userName(i int) string { return fmt.Sprintf("client-%d", i+1) }

func (w *world) user(i int) *user {
	name := userName(i)
	transport := listen.Transport(w.net.Host(name, fmt.Sprintf("192.0.2.%d", 100+i)))
	transport.DisableKeepAlives = true
	return &user{w: w, name: name, dice: rand.New(rand.NewPCG(w.seed, uint64(100+i))), http: &http.Client{Transport: transport}}
}

// work asks one thing after another until the context ends.
func (u *user) work(ctx context.Context) {
	for ctx.Err() == nil {
		switch n := u.dice.IntN(100); {
		case n < 40:
			u.write(ctx)
		case n < 50:
			u.createOnce(ctx)
		case n < 56:
			u.deleteOnce(ctx)
		case n < 75:
			u.read(ctx, "consistent")
		case n < 88:
			u.read(ctx, "default")
		default:
			u.read(ctx, "stale")
		}
		pause(ctx, time.Duration(20+u.dice.IntN(300))*time.Millisecond)
	}
}

// attemptWait is how long a client waits for one answer.
const attemptWait = 12 * time.Second

// one asks one peer once.
func (u *user) one(ctx context.Context, addr string, call client.Call, into any) (client.Meta, error) {
	c, err := client.New(client.Config{Addrs: []string{addr}, HTTP: u.http, Agent: u.name})
	if err != nil {
		return client.Meta{}, err
	}
	call.Once = true
	ctx, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	meta, err := c.Do(ctx, call, into)
	if u.seen.Before(meta.Index) {
		u.seen = meta.Index
	}
	return meta, err
}

// certain says whether an error means that this attempt did nothing and will do nothing.
func certain(err error) bool {
	var e *fleet.Error
	return errors.As(err, &e) && e.Code != fleet.OutcomeUnknown && e.Code != fleet.Internal
}

// outcome is what a caller knows of a write after all its attempts.
type outcome struct {
	answer  wire.ApplyAnswer
	done    bool
	refused bool // certainly nothing happened
	last    error
}

// send repeats a write with one request id, at one peer after another, until it knows what became of it or has tried often enough. The first
// attempt that may have happened makes the whole unknown, unless a later one is acknowledged.
func (u *user) send(ctx context.Context, call client.Call) outcome {
	call.Header = call.Header.Clone()
	if call.Header == nil {
		call.Header = http.Header{}
	}
	call.Header.Set(wire.HeaderRequestID, client.NewRequestID(u.seen))
	out := outcome{refused: true}
	for _, addr := range append(u.w.urls(u.dice), u.w.urls(u.dice)...) {
		_, err := u.one(ctx, addr, call, &out.answer)
		if err == nil {
			return outcome{answer: out.answer, done: true}
		}
		out.last = err
		var e *fleet.Error
		if !certain(err) {
			out.refused = false
		} else if errors.As(err, &e) && e.Code != fleet.NoLeader && e.Code != fleet.NotReady && e.Code != fleet.Busy {
			return out // a verdict, and no peer has another
		}
		if pause(ctx, 200*time.Millisecond); ctx.Err() != nil {
			break
		}
	}
	return out
}

func spec(name, value string) fleet.ModelSpec {
	s := fleet.DefaultedSpec()
	s.Version, s.Kind, s.Name = fleet.SpecVersion, "model", name
	s.Labels = map[string]string{valueLabel: value}
	s.Engine = fleet.EngineSpec{Driver: "sim", Weights: "w"}
	s.Placement.GPUsPerNode = 1
	s.Replicas = fleet.ReplicaCount{Min: 0, Max: 1}
	s.Drain = fleet.DrainSpec{Deadline: fleet.Duration(10 * time.Second), Minimum: fleet.Duration(time.Second)}
	return s
}

func putModel(s fleet.ModelSpec) client.Call {
	return client.Call{Method: http.MethodPut, Path: "models/" + url.PathEscape(s.Name), Query: url.Values{"allow_unplaceable": {"true"}}, Body: s}
}

func (u *user) write(ctx context.Context) {
	u.made++
	w := &write{key: registerName(u.dice.IntN(registers)), value: fmt.Sprintf("%s.%d", u.name, u.made), end: never}
	w.start = u.w.book.tick()
	out := u.send(ctx, putModel(spec(w.key, w.value)))
	switch {
	case out.done && out.answer.Index.IsZero():
		u.w.story.wrong("the write of %s was acknowledged without an index", w.value)
	case out.done:
		w.end, w.index, w.at = u.w.book.tick(), out.answer.Index, time.Now()
		u.w.tally.add("writes acknowledged", 1)
		u.w.story.say(u.name, "wrote %s := %s at %s", w.key, w.value, w.index)
	case out.refused:
		w.refused = true
		u.w.tally.add("writes refused", 1)
		u.w.story.say(u.name, "was refused %s := %s: %v", w.key, w.value, out.last)
	default:
		u.w.tally.add("writes of unknown outcome", 1)
		u.w.story.say(u.name, "does not know what became of %s := %s: %v", w.key, w.value, out.last)
	}
	u.w.book.noteWrite(w)
}

func (u *user) read(ctx context.Context, mode string) {
	r := read{key: registerName(u.dice.IntN(registers)), mode: mode}
	for _, addr := range u.w.urls(u.dice) {
		var m wire.ModelView
		asked := time.Now()
		r.start = u.w.book.tick()
		meta, err := u.one(ctx, addr, client.Call{Path: "models/" + r.key, Query: url.Values{"consistency": {mode}}}, &m)
		if err != nil {
			continue
		}
		r.end, r.from, r.index, r.value = u.w.book.tick(), addr, meta.Index, m.Spec.Labels[valueLabel]
		r.commit, _ = strconv.ParseUint(meta.CommitIndex, 10, 64)
		if meta.KnowledgeAge >= 0 {
			r.asOf = asked.Add(-meta.KnowledgeAge - time.Millisecond) // the header is rounded down
		}
		u.w.tally.add(mode+" reads", 1)
		u.w.story.say(u.name, "%s read of %s through %s gave %q at %s, of %s as of %.3f", mode, r.key, addr, r.value, r.index, meta.CommitIndex, u.w.book.since(r.asOf))
		u.w.book.noteRead(r)
		return
	}
}

// createOnce creates a model on condition that it is not there. A repeat of the request must get the first answer, never the refusal of a second
// creation.
func (u *user) createOnce(ctx context.Context) {
	u.made++
	name := fmt.Sprintf("once-%s-%d", u.name, u.made)
	call := putModel(spec(name, "once"))
	call.Header = http.Header{"If-Match": {fleet.Index{}.String()}}
	out := u.send(ctx, call)
	row := &onceRow{created: out.answer.Index, createdUnknown: !out.done && !out.refused}
	u.w.story.say(u.name, "creates %s: acknowledged %v, unknown %v, %v", name, out.done, row.createdUnknown, out.last)
	if errors.Is(out.last, fleet.Changed) {
		u.w.story.wrong("the creation of %s, repeated with its request id, met its own first attempt: %v", name, out.last)
	}
	if !out.done {
		return
	}
	u.w.tally.add("creations acknowledged", 1)
	u.own = append(u.own, name)
	u.w.book.mu.Lock()
	defer u.w.book.mu.Unlock()
	u.w.book.once[name] = row
}

// deleteOnce deletes one of its models. A repeat must not be told that there is none.
func (u *user) deleteOnce(ctx context.Context) {
	if len(u.own) == 0 {
		return
	}
	name := u.own[0]
	u.own = u.own[1:]
	out := u.send(ctx, client.Call{Method: http.MethodDelete, Path: "models/" + name})
	u.w.story.say(u.name, "deletes %s: acknowledged %v, %v", name, out.done, out.last)
	u.w.book.mu.Lock()
	defer u.w.book.mu.Unlock()
	row := u.w.book.once[name]
	row.deleted, row.deletedUnknown = out.answer.Index, !out.done
	if errors.Is(out.last, fleet.NotFound) && len(u.w.book.restores) == 0 {
		u.w.story.wrong("%s was created at %s and is not there to be deleted, or the deletion met its own first attempt", name, row.created)
	}
}
