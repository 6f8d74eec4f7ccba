package router

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		c.set(model("m", c.engine("a", "10.0.0.1", sse(30, time.Second))), model("cold"))
		go func() { c.post(chatPath, `{"model":"m","user":"a prompt"}`) }()
		go func() { c.post(chatPath, `{"model":"cold"}`) }()
		c.post(chatPath, `{"model":"none"}`)
		time.Sleep(3 * time.Second)
		a := c.get("http://" + opsAt + "/metrics")
		for _, want := range []string{
			`berth_router_requests_in_flight{model="m"} 1`, `berth_router_requests_waiting{model="cold"} 1`, `berth_router_requests_active 2`,
			`berth_router_requests_total{outcome="4xx",route="/v1/chat/completions"} 1`, `berth_router_replicas_usable{model="m"} 1`,
			`berth_router_table_index 1`, `berth_router_table_models 2`, `berth_router_reports_total{result="acknowledged"} 3`, "berth_router_table_age_seconds 3",
		} {
			if !strings.Contains(a.body, want) {
				t.Errorf("%s is missing", want)
			}
		}
		if strings.Contains(a.body, "none") || strings.Contains(a.body, "prompt") || strings.Contains(a.body, "req_") || strings.Contains(a.body, "key-a") {
			t.Error("something of a client or a key is in the metrics")
		}
		own := regexp.MustCompile(`(?m)^(# (HELP|TYPE) )?berth_router_.*\n`).FindAllString(a.body, -1)
		problems, err := promlint.New(strings.NewReader(strings.Join(own, ""))).Lint()
		if err != nil || len(problems) > 0 || len(own) < 30 {
			t.Errorf("%v %v in %d lines", err, problems, len(own))
		}
	})
}

func TestTheAgeOfNoTableIsNoNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		if a := c.get("http://" + opsAt + "/metrics"); strings.Contains(a.body, "berth_router_table_age_seconds") {
			t.Error("an age without a table")
		}
		if a := c.get("http://" + opsAt + "/table"); !strings.Contains(a.body, `"have":false`) || !strings.Contains(a.body, `"age_seconds":-1`) {
			t.Errorf("%s", a.body)
		}
		if a := c.get("http://" + opsAt + "/nothing"); a.status != 404 {
			t.Errorf("%d", a.status)
		}
	})
}
