package dev

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth/fleet"
)

func (b *bubble) save() []byte {
	b.t.Helper()
	body, _, err := b.ctl.SaveSnapshot(context.Background(), false)
	if err != nil {
		b.t.Fatal(err)
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		b.t.Fatal(err)
	}
	return data
}

func (b *bubble) restore(file []byte) {
	b.t.Helper()
	if _, err := b.ctl.RestoreSnapshot(context.Background(), bytes.NewReader(file), false); err != nil {
		b.t.Fatalf("restore: %v", err)
	}
}

// TestAnOldBackupStopsNoEngine (C36): after the backup one model was woken and another made. Restoring it reloads nothing, kills nothing and
// loses no request: what it knows is confirmed or adopted, and what it does not know is listed.
func TestAnOldBackupStopsNoEngine(t *testing.T) {
	l := new(loads)
	inBubble(t, func(c *Config) { c.Nodes = 3; l.watch(c) }, func(b *bubble) {
		b.nodes(3)
		b.applySpec(resident("kept", time.Second))
		woken := sleeper("woken", 8)
		woken.Idle.UnloadAfter = fleet.Duration(time.Hour)
		b.applySpec(woken)
		b.eventually("kept is ready", func() bool { return b.status().Replicas.Ready == 1 })
		backup := b.save()
		if status, body := b.ask(0, "woken", 1); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		b.applySpec(resident("later", time.Second))
		b.eventually("three are ready", func() bool { return b.status().Replicas.Ready == 3 })
		kept, _ := b.replicaOf("kept")
		adopted, _ := b.replicaOf("woken")
		later, _ := b.replicaOf("later")

		b.restore(backup)
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
			if status, body := b.ask(0, "kept", 1); status != http.StatusOK {
				t.Fatalf("%v before the end: %d %s", time.Until(end), status, body)
			}
		}
		if l.count() != 3 {
			t.Errorf("%d engines were started, want the three from before", l.count())
		}
		for _, was := range []string{kept.ID, adopted.ID} {
			if r, ok := b.find(was); !ok || r.State != fleet.Ready || len(r.Marks) > 0 {
				t.Errorf("%s is %s, marked %v, there %v", was, r.State, r.Marks, ok)
			}
		}
		if status, body := b.ask(0, "woken", 1); status != http.StatusOK {
			t.Errorf("the adopted replica: %d %s", status, body)
		}
		n, _, err := b.ctl.Node(context.Background(), later.Shards[0].Node)
		if err != nil || len(n.Unmanaged) != 1 || !strings.Contains(n.Unmanaged[0].What, later.ID) {
			t.Errorf("the engine of a model that the backup does not know: %+v %v", n.Unmanaged, err)
		}
		if _, ok := b.find(later.ID); ok {
			t.Error("a replica of a model that the backup does not know has a row")
		}
	})
}

// TestABackupOfAMachineThatIsGone (C36): the replica there is never shown as serving, and made anew elsewhere when its node has been silent for
// the usual time.
func TestABackupOfAMachineThatIsGone(t *testing.T) {
	inBubble(t, func(c *Config) { c.Nodes = 2 }, func(b *bubble) {
		b.nodes(2)
		b.applySpec(resident("m", time.Second))
		b.eventually("m is ready", func() bool { return b.status().Replicas.Ready == 1 })
		was, _ := b.replicaOf("m")
		backup := b.save()
		if err := b.StopMachine(was.Shards[0].Node); err != nil {
			t.Fatal(err)
		}
		b.restore(backup)
		begun := time.Now()
		for b.status().Nodes.Unreachable == 0 {
			if r, ok := b.find(was.ID); !ok || r.State != fleet.Starting || b.status().Replicas.Ready != 0 {
				t.Fatalf("after %v: %s, %d ready", time.Since(begun), r.State, b.status().Replicas.Ready)
			}
			if time.Since(begun) > 3*time.Minute {
				t.Fatal("the node never becomes unreachable")
			}
			time.Sleep(time.Second)
		}
		b.eventually("a replacement is ready", func() bool { return b.status().Replicas.Ready == 1 })
		for _, r := range b.replicas() {
			if r.State == fleet.Ready && r.Shards[0].Node == was.Shards[0].Node {
				t.Errorf("ready on the machine that is gone: %+v", r)
			}
		}
	})
}
