package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/fleet"
	"berth/fleet/wire"
)

// nodeOf gives the node of rank 0 of a model's first replica, and the replica.
func (x terminal) nodeOf(model string) (node, replica string) {
	x.t.Helper()
	out, _ := x.at(exitOK, "replicas", "--json", "--model", model)
	var rows []wire.ReplicaView
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) == 0 {
		x.t.Fatalf("replicas of %s: %v\n%s", model, err, out)
	}
	return rows[0].Shards[0].Node, rows[0].ID
}

func (x terminal) settled() {
	x.t.Helper()
	time.Sleep(10 * time.Second)
	x.at(exitOK, "model", "apply", "-f", filepath.Join("..", "..", "examples", "sim"))
	time.Sleep(20 * time.Second)
}

// TestANodesDrainEndsWithACode (C09, C13): done, timed out with what is left and why, or cancelled by somebody else.
func TestANodesDrainEndsWithACode(t *testing.T) {
	inCluster(t, func(x terminal) {
		x.settled()
		node, replica := x.nodeOf("deepseek-ai/DeepSeek-R1")
		_, said := x.at(exitTimeout, "--yes", "node", "drain", node, "--deadline", "20s", "--reason", "a new fan")
		for _, want := range []string{"left: " + replica, "waiting: no free block of 2 nodes of 8 x h100-sxm-80gb", "deadline has passed", "serves on: " + replica, "berthctl replica stop",
			"berthctl node undrain " + node} {
			if !strings.Contains(said, want) {
				t.Errorf("a drain without room does not say %q:\n%s", want, said)
			}
		}
		x.at(exitOK, "node", "undrain", node)

		cancelled := make(chan struct{})
		go func() {
			defer close(cancelled)
			time.Sleep(5 * time.Second)
			x.at(exitOK, "node", "undrain", node)
		}()
		if _, said := x.at(exitError, "--yes", "node", "drain", node); !strings.Contains(said, "cancelled") {
			t.Errorf("a drain that somebody cancelled: %s", said)
		}
		<-cancelled

		small, _ := x.nodeOf("meta-llama/Llama-3.1-8B-Instruct")
		if out, _ := x.at(exitOK, "--yes", "node", "drain", small, "--deadline", "5m"); !strings.Contains(out, small+": drained") {
			t.Errorf("a drain with room: %s", out)
		}
		if out, _ := x.at(exitOK, "--yes", "node", "drain", small, "--detach"); !strings.Contains(out, "draining") {
			t.Errorf("a detached drain: %s", out)
		}
		if _, said := x.at(exitError, "--yes", "node", "forget", small); !strings.Contains(said, "answers") {
			t.Errorf("forgetting a node whose agent answers: %s", said)
		}
	})
}

func TestANodeIsCordonedAndAReplicaStoppedAndRestarted(t *testing.T) {
	inCluster(t, func(x terminal) {
		x.settled()
		node, replica := x.nodeOf("BAAI/bge-small-en-v1.5")
		x.at(exitOK, "node", "cordon", node, "--reason", "a new fan")
		if out, _ := x.at(exitOK, "nodes"); !strings.Contains(out, "cordoned") || !strings.Contains(out, "a new fan") {
			t.Errorf("nodes: %s", out)
		}
		x.at(exitOK, "node", "uncordon", node)
		x.at(exitOK, "--yes", "replica", "restart", replica)
		time.Sleep(10 * time.Second)
		if _, again := x.nodeOf("BAAI/bge-small-en-v1.5"); again != replica {
			t.Errorf("restarted, %s is %s", replica, again)
		}
		x.at(exitOK, "--yes", "replica", "stop", replica, "--reason", "a test")
		time.Sleep(20 * time.Second)
		if _, again := x.nodeOf("BAAI/bge-small-en-v1.5"); again == replica {
			t.Errorf("stopped, %s is still there", replica)
		}
		out, _ := x.at(exitOK, "replicas", "--json", "--model", "BAAI/bge-small-en-v1.5")
		var rows []wire.ReplicaView
		if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 1 || rows[0].State != fleet.Ready {
			t.Errorf("what replaced it: %v %s", err, out)
		}
	})
}
