package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/agent/shim"
	"berth/fleet"
	"berth/internal/listen"
)

// get asks the agent's own HTTP.
func (g *rig) get(path string) (int, string) {
	g.t.Helper()
	tr := listen.Transport(g.host)
	defer tr.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:7310"+path, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	res, err := tr.RoundTrip(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestOwnHTTP(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.peers.set(func(p *peers) { p.regErr = errDown })
		g.start()
		if code, _ := g.get("/readyz"); code != http.StatusServiceUnavailable {
			t.Errorf("ready before it is registered: %d", code)
		}
		g.peers.set(func(p *peers) { p.regErr = nil })
		g.after(time.Minute)
		g.order(10, run(10))
		for path, want := range map[string]string{
			"/livez":     "",
			"/readyz":    "",
			"/metrics":   `berth_agent_shards{phase="starting"} 1`,
			"/inventory": `"instance":1,"cluster":"c-1","orders":"1.10"`,
			"/replicas":  `"phase":"starting"`,
		} {
			code, body := g.get(path)
			if code != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s: %d %s", path, code, body)
			}
			if strings.Contains(body, "secret") {
				t.Errorf("%s shows a door's key", path)
			}
		}
		if code, _ := g.get("/nothing"); code != http.StatusNotFound {
			t.Error(code)
		}
	})
}

func TestLogs(t *testing.T) {
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		for query, want := range map[string]string{"": "one\ntwo\nthree\n", "?tail=1": "three\n", "?tail=2&follow=true&shard=0": "two\nthree\n"} {
			if code, body := g.get("/replicas/" + replica + "/logs" + query); code != http.StatusOK || body != want {
				t.Errorf("%q: %d %q", query, code, body)
			}
		}
		for query, want := range map[string]fleet.Code{
			"/r-1.9.9/logs": fleet.NotFound, "/" + replica + "/logs?shard=1": fleet.NotFound, "/" + replica + "/logs?tail=-1": fleet.BadRequest,
			"/" + replica + "/logs?lines=4": fleet.UnknownField, "/" + replica + "/logs?follow=perhaps": fleet.BadRequest, "/..%2Fsecret/logs": fleet.BadRequest,
		} {
			code, body := g.get("/replicas" + query)
			var e struct{ Error fleet.Error }
			if json.Unmarshal([]byte(body), &e) != nil || e.Error.Code != want || code != want.Status() {
				t.Errorf("%q: %d %s, want %s", query, code, body, want)
			}
		}
		old := shim.LogDir(filepath.Join(g.dir, "logs"), "r-1.2.1", 0)
		if err := os.MkdirAll(old, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(old, "engine.log"), []byte("it was long ago\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, body := g.get("/replicas/r-1.2.1/logs?tail=5"); code != http.StatusOK || body != "it was long ago\n" {
			t.Errorf("logs of a stopped replica: %d %q", code, body)
		}
	})
}

// TestOldLogsGo: what stopped replicas wrote stays for seven days and for one gigabyte a node; what is here stays.
func TestOldLogsGo(t *testing.T) {
	const day, gigabyte = 24 * time.Hour, 1 << 30
	inBubble(t, func(t *testing.T, g *rig) {
		g.start()
		g.order(10, run(10))
		g.leaveLog(replica+".0", 30*day, 3*gigabyte) // it runs
		g.leaveLog("r-1.1.1.0", 8*day, 10)
		g.leaveLog("r-1.2.1.0", 6*day, 10)
		g.after(61 * time.Minute)
		g.wantLogs(replica+".0", "r-1.2.1.0")
		g.leaveLog("r-1.3.1.0", 3*time.Hour, gigabyte/2)
		g.leaveLog("r-1.4.1.0", 2*time.Hour, gigabyte/2+1)
		g.leaveLog("r-1.5.1.1", time.Hour, 10)
		g.after(time.Hour)
		g.wantLogs(replica+".0", "r-1.4.1.0", "r-1.5.1.1")
	})
}

// leaveLog leaves the output of an engine, last written some time ago. The file is sparse: no gigabyte is written.
func (g *rig) leaveLog(name string, age time.Duration, bytes int64) {
	g.t.Helper()
	path := filepath.Join(g.dir, "logs", name, "engine.log")
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600), os.Truncate(path, bytes),
		os.Chtimes(path, time.Time{}, time.Now().Add(-age)))
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *rig) wantLogs(want ...string) {
	g.t.Helper()
	dirs, err := os.ReadDir(filepath.Join(g.dir, "logs"))
	if err != nil {
		g.t.Fatal(err)
	}
	var got []string
	for _, d := range dirs {
		got = append(got, d.Name())
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		g.t.Errorf("logs %v, want %v", got, want)
	}
}
