package router

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"berth/fleet/wire"
	"berth/internal/ops"
)

// operators serves /livez, /readyz, /metrics, /table and /report.
func (r *Router) operators() http.Handler {
	r.ops.Ready("table", func(context.Context) error {
		if !r.tables.state(0).Have {
			return fmt.Errorf("no routing table yet: %w", ops.ErrNotYet)
		}
		return nil
	})
	r.ops.Ready("serving", func(context.Context) error {
		if !r.serving.Load() {
			return errors.New("not taking requests")
		}
		return nil
	})
	common := r.ops.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		path := req.URL.Path
		get := req.Method == http.MethodGet || req.Method == http.MethodHead
		switch {
		case path == "/table" && get:
			r.showTable(w)
		case path == "/report" && get:
			r.showReport(w)
		default:
			common.ServeHTTP(w, req)
			if path == "/readyz" && get {
				fmt.Fprintln(w, r.tableLine())
			}
		}
	})
}

// staleAfter is the age from which the table counts as stale: a peer answers within Wait, changed or not.
func (r *Router) staleAfter() time.Duration { return r.config.Wait + 5*r.config.Tick }

// tableLine says in words how old the table is. A stale table is no reason not to be ready: it is the best there is.
func (r *Router) tableLine() string {
	s := r.tables.state(r.staleAfter())
	if !s.Have {
		return "table: none"
	}
	age := time.Duration(s.Age * float64(time.Second)).Round(time.Millisecond)
	line := fmt.Sprintf("table: index %s, confirmed %s ago", s.Index, age)
	if s.Stale {
		line += ", stale: no peer answers"
	}
	return line
}

// showTable shows the table with its keys masked.
func (r *Router) showTable(w http.ResponseWriter) {
	table, _ := r.pool.Table()
	table.Models = slices.Clone(table.Models)
	for i := range table.Models {
		m := &table.Models[i]
		m.Endpoints = slices.Clone(m.Endpoints)
		for j := range m.Endpoints {
			if m.Endpoints[j].Key != "" {
				m.Endpoints[j].Key = "***"
			}
		}
	}
	writeJSON(w, struct {
		tableState
		Table wire.Table `json:"table"`
	}{r.tables.state(r.staleAfter()), table})
}

// showReport shows the last report as it was sent: what this router has not served is not in it.
func (r *Router) showReport(w http.ResponseWriter) {
	last, trouble := r.reporter.state()
	out := struct {
		Report  *wire.Report `json:"report"` // null before the first tick
		Trouble string       `json:"trouble,omitempty"`
	}{Report: last}
	if trouble != nil {
		out.Trouble = trouble.Error()
	}
	writeJSON(w, out)
}
