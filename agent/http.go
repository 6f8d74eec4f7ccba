package agent

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strconv"

	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/listen"
)

const (
	defaultTail = 200
	maxTail     = 10_000
)

// handler serves the agent's own HTTP. Nothing here changes anything.
func (p *parts) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", p.ops.Handler())
	mux.HandleFunc("GET /inventory", p.serveInventory)
	mux.HandleFunc("GET /replicas", p.serveReplicas)
	mux.HandleFunc("GET /replicas/{id}/logs", p.serveLogs)
	return mux
}

// inventoryView answers GET inventory.
type inventoryView struct {
	Node      string              `json:"node"`
	ID        string              `json:"id"`
	Instance  uint64              `json:"instance"`
	Cluster   string              `json:"cluster,omitempty"`
	Orders    fleet.Index         `json:"orders"`
	Inventory fleet.Inventory     `json:"inventory"`
	Engines   []fleet.EngineOffer `json:"engines"`
	Unmanaged []fleet.Unmanaged   `json:"unmanaged,omitempty"`
	GPUs      []wire.GPULoad      `json:"gpus,omitempty"`
}

func (p *parts) serveInventory(w http.ResponseWriter, _ *http.Request) {
	inv, offers := p.machine.inventory()
	_, unmanaged := p.crew.running()
	answer(w, inventoryView{
		Node: p.cfg.Name, ID: p.disk.id, Instance: p.disk.instance, Cluster: p.disk.cluster(), Orders: p.disk.seen(),
		Inventory: inv, Engines: offers, Unmanaged: unmanaged, GPUs: p.machine.load(),
	})
}

// shardView is one row of GET replicas. Keys are not in it.
type shardView struct {
	Replica  string        `json:"replica"`
	Model    string        `json:"model"`
	Rank     int           `json:"rank"`
	Action   string        `json:"action,omitempty"` // of the newest order
	Order    fleet.Index   `json:"order"`
	Phase    string        `json:"phase"` // of the shim; none: there is no shim
	Reason   string        `json:"reason,omitempty"`
	Shim     uint64        `json:"shim,omitempty"`
	Engine   uint64        `json:"engine,omitempty"`
	Start    uint64        `json:"start,omitempty"`
	Door     string        `json:"door,omitempty"`
	Restarts int           `json:"restarts"`
	Exit     *fleet.Exit   `json:"exit,omitempty"`
	Claims   []fleet.Claim `json:"claims"`
}

func (p *parts) serveReplicas(w http.ResponseWriter, _ *http.Request) {
	rows := []shardView{}
	for _, k := range p.crew.list() {
		rows = append(rows, rowOf(k.replica, k.view()))
	}
	answer(w, rows)
}

func rowOf(replica string, v view) shardView {
	o, st := v.order, v.status
	if o.Replica == "" && v.handle != nil {
		o = v.handle.Launch().Order
	}
	row := shardView{
		Replica: replica, Model: o.Model, Rank: o.Rank, Action: o.Action, Order: o.ID, Phase: v.phase(), Reason: st.Reason, Shim: st.Shim,
		Engine: st.Engine, Start: st.Start, Restarts: st.Restarts, Exit: st.Exit, Claims: o.Claims,
	}
	if st.Door != nil {
		row.Door = st.Door.Address
	}
	return row
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client has gone
}

func refuse(w http.ResponseWriter, e *fleet.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Code.Status())
	_ = json.NewEncoder(w).Encode(wire.ErrorBody{Error: *e})
}

// logQuery is the query of GET replicas/{id}/logs.
type logQuery struct {
	tail   int
	follow bool
	shard  int // -1: the one on this node
}

func logQueryOf(r *http.Request) (logQuery, *fleet.Error) {
	q := logQuery{tail: defaultTail, shard: -1}
	for name, values := range r.URL.Query() {
		v, err := values[0], error(nil)
		switch name {
		case "tail":
			if q.tail, err = strconv.Atoi(v); err != nil || q.tail < 0 || q.tail > maxTail {
				return q, fleet.Errorf(fleet.BadRequest, "tail is %q; it is a number of lines, from 0 to %d", v, maxTail)
			}
		case "shard":
			if q.shard, err = strconv.Atoi(v); err != nil || q.shard < 0 {
				return q, fleet.Errorf(fleet.BadRequest, "shard is %q; it is a rank, from 0", v)
			}
		case "follow":
			if q.follow, err = strconv.ParseBool(v); err != nil && v != "" {
				return q, fleet.Errorf(fleet.BadRequest, "follow is %q; it is true or false", v)
			}
			q.follow = q.follow || v == ""
		default:
			return q, fleet.Errorf(fleet.UnknownField, "there is no parameter %q", name).WithHint("tail, follow and shard")
		}
	}
	return q, nil
}

func (p *parts) serveLogs(w http.ResponseWriter, r *http.Request) {
	q, bad := logQueryOf(r)
	if bad != nil {
		refuse(w, bad)
		return
	}
	lines, err := p.openLogs(r, q)
	if err != nil {
		refuse(w, fleet.AsError(err))
		return
	}
	defer lines.Close()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	stream(w, r, lines)
}

// openLogs asks the shim, or reads what it left on disk when it is gone.
func (p *parts) openLogs(r *http.Request, q logQuery) (io.ReadCloser, error) {
	replica := r.PathValue("id")
	if err := fleet.CheckName("replica", replica); err != nil { // it becomes a part of a path below
		return nil, err
	}
	if k, ok := p.crew.get(replica); ok {
		v := k.view()
		if v.handle != nil && (q.shard < 0 || q.shard == v.handle.Launch().Order.Rank) {
			lines, err := v.handle.Logs(r.Context(), q.tail, q.follow)
			if !errors.Is(err, shim.ErrGone) {
				return lines, err
			}
		}
		if q.shard < 0 {
			q.shard = v.order.Rank
		}
	}
	lines, err := shim.ReadLogs(shim.LogDir(p.cfg.Logs, replica, max(q.shard, 0)), q.tail)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fleet.Errorf(fleet.NotFound, "this node has no log of rank %d of the replica %s", max(q.shard, 0), replica).
			WithHint("GET /replicas lists what runs here; logs of stopped replicas are kept for a time only")
	}
	return lines, err
}

// stream writes each piece as it comes, until the client or the server goes.
func stream(w http.ResponseWriter, r *http.Request, lines io.ReadCloser) {
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() { // ends a Read that waits
		defer close(ended)
		select {
		case <-r.Context().Done():
		case <-listen.Stopping(r.Context()):
		case <-done:
		}
		_ = lines.Close()
	}()
	defer func() { close(done); <-ended }()
	out := http.NewResponseController(w)
	_ = out.Flush() // headers, before the first line
	buf := make([]byte, 32<<10)
	for {
		n, err := lines.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil || out.Flush() != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
