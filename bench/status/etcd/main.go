// Command etcd answers the status question with etcd: range every node and replica, decode them, and count cards by class and fabrics by free whole
// nodes. It runs etcd in process, asked without gRPC and without fsync, and decodes only the fields that it counts: the kindest setting for it.
//
// It is a module of its own so that Berth's does not depend on etcd.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/version"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
)

type row struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

func main() {
	file := flag.String("rows", "", "rows of the fleet, one JSON line each")
	data := flag.String("data", "", "etcd's data directory")
	updates := flag.Int("updates", 500, "puts of a row a second")
	duration := flag.Duration("duration", 10*time.Second, "how long it is asked")
	flag.Parse()
	if err := run(*file, *data, *updates, *duration); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
}

func run(file, data string, updates int, duration time.Duration) error {
	rows, err := read(file)
	if err != nil {
		return err
	}
	e, err := start(data)
	if err != nil {
		return err
	}
	defer e.Close()
	c := v3client.New(e.Server)
	defer c.Close()
	if err := load(c, rows); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var puts atomic.Int64
	var work sync.WaitGroup
	work.Go(func() { write(ctx, c, rows, updates, &puts) })
	began := time.Now()
	whole, ranges, bytes, err := ask(c, duration)
	rate := float64(puts.Load()) / time.Since(began).Seconds()
	cancel()
	work.Wait()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"version": version.Version, "rows": len(rows), "bytes": bytes, "updates_per_second": rate,
		"p50_us": us(whole, .5), "p99_us": us(whole, .99), "range_p50_ms": us(ranges, .5) / 1000,
	})
}

func us(all []time.Duration, q float64) float64 {
	slices.Sort(all)
	return float64(all[int(q*float64(len(all)-1))].Nanoseconds()) / 1000
}

func read(file string) ([]row, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var rows []row
	for dec := json.NewDecoder(bufio.NewReaderSize(f, 1<<20)); dec.More(); {
		var r row
		if err := dec.Decode(&r); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func start(data string) (*embed.Etcd, error) {
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel, cfg.UnsafeNoFsync = data, "fatal", true
	local := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenPeerUrls, cfg.ListenClientUrls = []url.URL{local}, []url.URL{local}
	cfg.AdvertisePeerUrls, cfg.AdvertiseClientUrls = []url.URL{local}, []url.URL{local}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, nil
	case <-time.After(time.Minute):
		e.Close()
		return nil, fmt.Errorf("not ready after a minute")
	}
}

func load(c *clientv3.Client, rows []row) error {
	var work sync.WaitGroup
	var failed atomic.Pointer[error]
	for part := range slices.Chunk(rows, max(1, len(rows)/32)) {
		work.Go(func() {
			for _, r := range part {
				if _, err := c.Put(context.Background(), r.Key, string(r.Value)); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	work.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// write puts random rows again at a rate, from a few writers so that one slow commit does not hold the others up.
func write(ctx context.Context, c *clientv3.Client, rows []row, rate int, puts *atomic.Int64) {
	const writers = 8
	var work sync.WaitGroup
	for range writers {
		work.Go(func() {
			tick := time.NewTicker(time.Second * writers / time.Duration(rate))
			defer tick.Stop()
			for ctx.Err() == nil {
				r := rows[rand.IntN(len(rows))]
				if _, err := c.Put(ctx, r.Key, string(r.Value)); err == nil {
					puts.Add(1)
				}
				<-tick.C
			}
		})
	}
	work.Wait()
}

func ask(c *clientv3.Client, duration time.Duration) (whole, ranges []time.Duration, bytes int, err error) {
	for began := time.Now(); time.Since(began) < duration || len(whole) < 10; {
		t := time.Now()
		nodes, err := c.Get(context.Background(), "/nodes/", clientv3.WithPrefix())
		if err != nil {
			return nil, nil, 0, err
		}
		replicas, err := c.Get(context.Background(), "/replicas/", clientv3.WithPrefix())
		if err != nil {
			return nil, nil, 0, err
		}
		ranges = append(ranges, time.Since(t))
		answer, err := aggregate(nodes, replicas)
		if err != nil {
			return nil, nil, 0, err
		}
		whole, bytes = append(whole, time.Since(t)), len(answer)
	}
	return whole, ranges, bytes, nil
}

type gpu struct {
	UUID    string `json:"uuid"`
	Class   string `json:"class"`
	Health  string `json:"health"`
	Foreign bool   `json:"foreign"`
}

type node struct {
	Name        string `json:"name"`
	Admin       string `json:"admin"`
	Unreachable bool   `json:"unreachable"`
	Inventory   struct {
		Fabric string `json:"fabric"`
		GPUs   []gpu  `json:"gpus"`
	} `json:"inventory"`
}

type replica struct {
	State  string `json:"state"`
	Model  string `json:"model"`
	Shards []struct {
		Node     string `json:"node"`
		Released bool   `json:"released"`
		Claims   []struct {
			GPU string `json:"gpu"`
		} `json:"claims"`
	} `json:"shards"`
}

type class struct {
	Total, Used, Free, Unhealthy, Withheld int
}

// aggregate counts what Berth's status counts: classes, fabrics, nodes and replicas by state, ready replicas by model.
func aggregate(nodes, replicas *clientv3.GetResponse) ([]byte, error) {
	held, states, ready := map[string]bool{}, map[string]int{}, map[string]int{}
	for _, kv := range replicas.Kvs {
		var r replica
		if err := json.Unmarshal(kv.Value, &r); err != nil {
			return nil, err
		}
		states[r.State]++
		if r.State == "ready" {
			ready[r.Model]++
		}
		for _, s := range r.Shards {
			for _, c := range s.Claims {
				if !s.Released {
					held[s.Node+"/"+c.GPU] = true
				}
			}
		}
	}
	classes, fabrics, admin := map[string]*class{}, map[string]int{}, map[string]int{}
	for _, kv := range nodes.Kvs {
		var n node
		if err := json.Unmarshal(kv.Value, &n); err != nil {
			return nil, err
		}
		admin[n.Admin]++
		if whole := n.count(held, classes); whole {
			fabrics[n.Inventory.Fabric]++
		}
	}
	return json.Marshal(map[string]any{"gpus": classes, "fabrics": fabrics, "nodes": admin, "replicas": states, "ready": ready})
}

func (n *node) count(held map[string]bool, classes map[string]*class) (whole bool) {
	free := 0
	for _, g := range n.Inventory.GPUs {
		c := classes[g.Class]
		if c == nil {
			c = new(class)
			classes[g.Class] = c
		}
		c.Total++
		switch {
		case g.Foreign || held[n.Name+"/"+g.UUID]:
			c.Used++
		case g.Health != "healthy":
			c.Unhealthy++
		case n.Unreachable || n.Admin != "":
			c.Withheld++
		default:
			c.Free++
			free++
		}
	}
	return free > 0 && free == len(n.Inventory.GPUs)
}
