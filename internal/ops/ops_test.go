package ops_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/goleak"

	"berth/internal/ops"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ask(h http.Handler, method, path string) (int, string) {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(method, path, nil))
	return rec.Code, rec.Body.String()
}

func TestHealth(t *testing.T) {
	o := ops.New(ops.Build{Role: "peer"})
	var raft error
	o.Ready("disk", func(context.Context) error { return nil })
	o.Ready("raft", func(context.Context) error { return raft })
	h := o.Handler()
	for _, c := range []struct {
		raft   error
		path   string
		status int
		body   string
	}{
		{nil, "/readyz", 200, "ok\n"},
		{nil, "/readyz?verbose", 200, "[+] disk ok\n[+] raft ok\nok\n"},
		{errors.Join(errors.New("no leader"), ops.ErrNotYet), "/readyz", 503, "[-] raft: no leader; still starting\n"},
		{errors.New("no leader"), "/readyz?verbose", 503, "[+] disk ok\n[-] raft: no leader\n"},
		{errors.New("no leader"), "/livez?verbose", 200, "ok\n"},
		{nil, "/other", 404, "404 page not found\n"},
	} {
		raft = c.raft
		if status, body := ask(h, "GET", c.path); status != c.status || body != c.body {
			t.Errorf("%s with raft %v: %d %q, want %d %q", c.path, c.raft, status, body, c.status, c.body)
		}
	}
	if status, _ := ask(h, "POST", "/readyz"); status != 405 {
		t.Errorf("POST gives %d", status)
	}
	o.Live("disk", func(context.Context) error { return errors.New("stuck") })
	if status, _ := ask(h, "GET", "/livez"); status != 503 {
		t.Errorf("a failed check of life gives %d", status)
	}
}

func TestHealthAnswersBeforeTheProberGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := ops.New(ops.Build{Role: "peer"})
		o.Ready("raft", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		start := time.Now()
		status, body := ask(o.Handler(), "GET", "/readyz")
		if status != 503 || !strings.Contains(body, "raft") || time.Since(start) >= time.Second {
			t.Errorf("%d %q after %v", status, body, time.Since(start))
		}
	})
}

func TestMetrics(t *testing.T) {
	o := ops.New(ops.Build{Role: "agent", Version: "1.2.0", Revision: "abc"})
	_, body := ask(o.Handler(), "GET", "/metrics")
	for _, want := range []string{
		`berth_build_info{goversion="go1.`, `revision="abc",role="agent",version="1.2.0"} 1`,
		"go_goroutines ", "process_start_time_seconds ",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics lack %q", want)
		}
	}
	other := ops.New(ops.Build{Role: "router"})
	_, body = ask(other.Handler(), "GET", "/metrics")
	if strings.Contains(body, `role="agent"`) || !strings.Contains(body, `version="unknown"`) {
		t.Error("two processes' metrics are not apart")
	}
}

func TestMetricNames(t *testing.T) {
	o := ops.New(ops.Build{Role: "agent"})
	_, lw, err := ops.Logger(new(strings.Builder), "info", ops.FormatText)
	if err != nil {
		t.Fatal(err)
	}
	defer lw.Close()
	o.Registry().MustRegister(lw)
	families, err := o.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "berth_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}
