// Command etcd is the other side of bench/raft: one etcd server, or a load on three of them through etcd's own client. It is a module of its own so that
// Berth's does not depend on etcd.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/version"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	name := flag.String("serve", "", "be the server of this name")
	client := flag.String("client", "", "its client URL")
	peer := flag.String("peer", "", "its peer URL")
	cluster := flag.String("cluster", "", "name=peer URL of all, with commas")
	data := flag.String("data", "", "its data directory")
	endpoints := flag.String("load", "", "be a load on these client URLs, with commas")
	clients := flag.Int("clients", 64, "clients that write at once")
	size := flag.Int("size", 256, "bytes of a value")
	duration := flag.Duration("for", 5*time.Second, "how long")
	round := flag.String("round", "", "prefix of the keys")
	kills := flag.Int("failover", 0, "start a cluster and kill its leader so often")
	port := flag.Int("port", 0, "first of six ports of that cluster")
	flag.Parse()
	var err error
	switch {
	case *name != "":
		err = serve(*name, *client, *peer, *cluster, *data)
	case *kills > 0:
		err = failover(*kills, *port)
	default:
		err = load(strings.Split(*endpoints, ","), *clients, *size, *duration, *round)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
}

// serve runs a server with etcd's defaults until SIGTERM.
func serve(name, client, peer, cluster, data string) error {
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.InitialCluster, cfg.LogLevel = name, data, cluster, "error"
	c, err := url.Parse(client)
	if err != nil {
		return err
	}
	p, err := url.Parse(peer)
	if err != nil {
		return err
	}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*c}, []url.URL{*c}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*p}, []url.URL{*p}
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	select {
	case <-ctx.Done():
		return nil
	case err := <-e.Err():
		return err
	}
}

// load puts distinct keys and prints what came of it. Each client has a connection of its own, to the endpoints in turn, as those of Berth have.
func load(endpoints []string, clients, size int, duration time.Duration, round string) error {
	value := strings.Repeat("x", size)
	var mu sync.Mutex
	var took []time.Duration
	var work sync.WaitGroup
	failed := 0
	var all []*clientv3.Client
	for i := range clients {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoints[i%len(endpoints)]}, DialTimeout: 5 * time.Second})
		if err != nil {
			return err
		}
		defer c.Close()
		all = append(all, c)
	}
	put := func(i, k int) error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err := all[i].Put(ctx, fmt.Sprintf("bench-%s-%d-%d", round, i, k), value)
		return err
	}
	for i := range clients { // connect
		if err := put(i, -1); err != nil {
			return err
		}
	}
	began := time.Now()
	for i := range clients {
		work.Go(func() {
			for k := 0; time.Since(began) < duration; k++ {
				at := time.Now()
				err := put(i, k)
				mu.Lock()
				if err != nil {
					failed++
				} else {
					took = append(took, time.Since(at))
				}
				mu.Unlock()
			}
		})
	}
	work.Wait()
	length := time.Since(began)
	slices.Sort(took)
	if len(took) == 0 {
		return fmt.Errorf("no write of %d succeeded", failed)
	}
	at := func(q float64) float64 { return took[int(q*float64(len(took)-1))].Seconds() * 1000 }
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"version": version.Version, "writes_per_second": float64(len(took)) / length.Seconds(), "p50_ms": at(.5), "p99_ms": at(.99), "failed": failed,
	})
}
