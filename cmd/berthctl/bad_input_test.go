package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"berth/fleet"
)

// badFile is a model file that is refused: by berthctl before it is sent, or by the fleet.
type badFile struct {
	name  string
	lines string // beside version, kind, name, and an engine where they name none
	says  []string
	fleet bool // nothing is wrong with the file: only this fleet could never hold it
}

var badFiles = []badFile{
	{name: "more cards than a node has", lines: "placement: {gpus_per_node: 9}", says: []string{"no registered node could ever hold", "4 with only 8 x h100-sxm-80gb", "gpus_per_node: 8 would fit"}, fleet: true},
	{name: "more nodes than a fabric has", lines: "placement: {nodes: 3, gpus_per_node: 8}", says: []string{"no registered node could ever hold", "nodes: 2 would fit"}, fleet: true},
	{name: "a class that nobody has", lines: "placement: {gpus_per_node: 1, classes: [b200-sxm-192gb]}", says: []string{"without b200-sxm-192gb", "classes: [h100-sxm-80gb] would fit"}, fleet: true},
	{name: "a class that nobody has, and too many cards of it", lines: "placement: {gpus_per_node: 16, classes: [b200-sxm-192gb]}", says: []string{"no node has that class; there are h100-sxm-80gb"}, fleet: true},
	{name: "a label that nobody has", lines: "placement: {gpus_per_node: 1, require: {zone: mars}}", says: []string{"without label zone=mars", "it would fit without require: zone"}, fleet: true},
	{name: "an engine that nobody offers", lines: "engine: {driver: vllm, weights: w}\nplacement: {gpus_per_node: 1}", says: []string{"no node offers vllm; nodes offer sim"}, fleet: true},
	{name: "more memory than any card has", lines: "placement: {gpus_per_node: 1, gpu_memory: 4TiB}", says: []string{"have less than 4TiB", "gpu_memory: 80GiB would fit"}, fleet: true},
	{name: "a part that is more than a card", lines: "placement: {gpu_share: 81GiB}", says: []string{"less than 81GiB", "gpu_share: 80GiB would fit"}, fleet: true},
	{name: "more CPUs than any node has", lines: "placement: {gpus_per_node: 1, cpus: 100000}", says: []string{"with fewer than 100000 CPUs", "fewer cpus or less memory would fit"}, fleet: true},

	{name: "whole cards and a part of one", lines: "placement: {gpus_per_node: 1, gpu_share: 2GiB}", says: []string{"both gpus_per_node and gpu_share"}},
	{name: "neither", lines: "placement: {nodes: 1}", says: []string{"neither gpus_per_node nor gpu_share"}},
	{name: "a part of a card over two nodes", lines: "placement: {nodes: 2, gpu_share: 2GiB}", says: []string{"gpu_share needs nodes: 1"}},
	{name: "one class twice", lines: "placement: {gpus_per_node: 1, classes: [a, a]}", says: []string{`names "a" twice`}},
	{name: "at least more than at most", lines: "placement: {gpus_per_node: 1}\nreplicas: {min: 3, max: 2}", says: []string{"min: 3, max: 2"}},
	{name: "unloaded, and never fewer than one", lines: "placement: {gpus_per_node: 1}\nreplicas: {min: 1, max: 1}\nidle: {unload_after: 1h}", says: []string{"unload_after needs replicas.min: 0"}},
	{name: "a rollout that may replace nothing", lines: "placement: {gpus_per_node: 1}\nrollout: {max_surge: 0, max_unavailable: 0}", says: []string{"nothing can be replaced"}},
	{name: "a drain longer than its deadline", lines: "placement: {gpus_per_node: 1}\ndrain: {deadline: 1s, minimum: 5s}", says: []string{"longer than drain.deadline"}},
	{name: "cards below zero", lines: "placement: {gpus_per_node: -1}", says: []string{"gpus_per_node is -1"}},
	{name: "nodes below zero", lines: "placement: {nodes: -2, gpus_per_node: 1}", says: []string{"placement.nodes is -2"}},
	{name: "CPUs below zero", lines: "placement: {gpus_per_node: 1, cpus: -4}", says: []string{"cpus is -4"}},
	{name: "a size below zero", lines: "placement: {gpus_per_node: 1, memory: -4GiB}", says: []string{"memory", "-4GiB"}},
	{name: "replicas below zero", lines: "placement: {gpus_per_node: 1}\nreplicas: {min: -1, max: 1}", says: []string{"min: -1"}},
	{name: "a priority that there is not", lines: "placement: {gpus_per_node: 1}\npriority: 101", says: []string{"priority is 101; use 0 to 100"}},
	{name: "a billion cards", lines: "placement: {gpus_per_node: 1000000000}", says: []string{"use 1 to 64"}},
	{name: "a million nodes", lines: "placement: {nodes: 1000000, gpus_per_node: 1}", says: []string{"use 1 to 64"}},
	{name: "a million replicas", lines: "placement: {gpus_per_node: 1}\nreplicas: {min: 0, max: 1000000}", says: []string{"max: 1000000", "at most 10000"}},
	{name: "a number beyond 64 bits", lines: "placement: {gpus_per_node: 99999999999999999999}", says: []string{"gpus_per_node"}},
	{name: "a size beyond 64 bits", lines: "placement: {gpus_per_node: 1, gpu_memory: 99999999999TiB}", says: []string{"gpu_memory", "99999999999TiB"}},
	{name: "a field that does not exist", lines: "placement: {gpus: 8}", says: []string{"gpus_per_node"}},
}

func (b badFile) text() string {
	engine := "engine: {driver: sim, weights: w}\n"
	if strings.Contains(b.lines, "engine:") {
		engine = ""
	}
	return "version: 1\nkind: model\nname: bad\n" + engine + b.lines + "\n"
}

// Bad input, line by line, through berthctl: what is wrong with the file or with the fleet is said with what would be right, nothing is changed, and the
// exit code is that of its kind. What only the fleet could never hold is a plan in which something is not placed, and is taken when asked to.
func TestBadInputThroughBerthctl(t *testing.T) {
	dir := t.TempDir()
	inCluster(t, func(x terminal) {
		for _, b := range badFiles {
			file := filepath.Join(dir, "bad.yaml")
			write(t, file, b.text())
			_, stderr := x.at(exitError, "model", "apply", "-f", file)
			for _, want := range b.says {
				if !strings.Contains(stderr, want) {
					t.Errorf("%s: %q is missing from %s", b.name, want, stderr)
				}
			}
			if !b.fleet {
				x.at(exitError, "model", "plan", "-f", file)
				x.at(exitError, "model", "apply", "--allow-unplaceable", "-f", file)
			} else {
				x.at(exitNotPlaced, "model", "plan", "-f", file)
			}
			x.at(exitError, "model", "show", "bad")
			if b.fleet {
				x.at(exitNotPlaced, "model", "apply", "--allow-unplaceable", "-f", file)
				x.at(exitNotPlaced, "model", "explain", "bad")
				x.at(0, "model", "delete", "bad", "--yes")
			}
		}
	})
}

// The same through the API, past what berthctl checks: the answer is a 4xx with a code, and the state is the same.
func TestBadInputThroughTheAPI(t *testing.T) {
	inCluster(t, func(x terminal) {
		body := func(placement, more string) string {
			return fmt.Sprintf(`{"version":1,"kind":"model","name":"bad","engine":{"driver":"sim","weights":"w"},"placement":%s%s}`, placement, more)
		}
		for _, c := range []struct {
			body string
			want int
			code fleet.Code
		}{
			{body(`{"nodes":1,"gpus_per_node":9}`, ""), 422, fleet.Unplaceable},
			{body(`{"nodes":3,"gpus_per_node":8}`, ""), 422, fleet.Unplaceable},
			{body(`{"nodes":1,"gpus_per_node":1,"classes":["b200"]}`, ""), 422, fleet.Unplaceable},
			{body(`{"nodes":1,"gpus_per_node":1,"require":{"zone":"mars"}}`, ""), 422, fleet.Unplaceable},
			{body(`{"nodes":1,"gpus_per_node":1,"gpu_share":"2GiB"}`, ""), 422, fleet.InvalidSpec},
			{body(`{"nodes":2,"gpu_share":"2GiB"}`, ""), 422, fleet.InvalidSpec},
			{body(`{"nodes":1,"gpus_per_node":-1}`, ""), 422, fleet.InvalidSpec},
			{body(`{"nodes":1,"gpus_per_node":1,"cpus":-1}`, ""), 422, fleet.InvalidSpec},
			{body(`{"nodes":1,"gpus_per_node":1000000000}`, ""), 422, fleet.InvalidSpec},
			{body(`{"nodes":1,"gpus_per_node":1}`, `,"replicas":{"min":3,"max":2}`), 422, fleet.InvalidSpec},
			{body(`{"nodes":1,"gpus_per_node":1}`, `,"replicas":{"min":0,"max":1000000}`), 422, fleet.InvalidSpec},
			{body(`{"nodes":1,"gpus_per_node":1}`, `,"rollout":{"max_surge":0,"max_unavailable":0}`), 422, fleet.InvalidSpec},
			{body(`{"nodes":1,"gpus_per_node":99999999999999999999}`, ""), 400, fleet.BadRequest},
			{body(`{"nodes":1,"gpus_per_node":"eight"}`, ""), 400, fleet.BadRequest},
			{body(`{"nodes":1,"gpu_share":"-2GiB"}`, ""), 400, fleet.BadRequest},
			{body(`{"nodes":1,"gpu_share":"99999999999TiB"}`, ""), 400, fleet.BadRequest},
			{body(`{"gpus":8}`, ""), 400, fleet.UnknownField},
			{`{"version":1`, 400, fleet.BadRequest},
		} {
			before := x.index()
			if status, answer := x.send(http.MethodPut, "models/bad", c.body); status != c.want || !strings.Contains(answer, string(c.code)) {
				t.Errorf("PUT %s\nis answered %d %s, want %d %s", c.body, status, answer, c.want, c.code)
			}
			if c.code == fleet.Unplaceable {
				continue // a dry run says more of it than an error
			}
			if status, answer := x.send(http.MethodPost, "plan", `{"models":[`+c.body+`]}`); status/100 != 4 {
				t.Errorf("a dry run of %s\nis answered %d %s", c.body, status, answer)
			}
			if after := x.index(); after != before {
				t.Errorf("%s\nhas moved the state from %s to %s", c.body, before, after)
			}
		}
	})
}

// send sends a body past the client, and returns the answer as it came.
func (x terminal) send(method, path, body string) (int, string) {
	x.t.Helper()
	peer, _, _ := strings.Cut(x.addr, ",")
	r, err := http.NewRequestWithContext(context.Background(), method, peer+"/api/v1/"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		x.t.Fatal(err)
	}
	answer, err := x.http.Do(r)
	if err != nil {
		x.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		x.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// index is how far the model's table has come: nothing that is refused moves it.
func (x terminal) index() string {
	_, text := x.send(http.MethodGet, "models?"+url.Values{"consistency": {"consistent"}}.Encode(), "")
	return text
}
