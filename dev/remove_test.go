package dev

import (
	"context"
	"testing"
	"time"

	"berth/admin/client"
)

// TestTheLeaderIsRemovedThroughItself: leadership goes to another first, the answer comes through the peer that is being removed, and the rest goes on.
func TestTheLeaderIsRemovedThroughItself(t *testing.T) {
	inBubble(t, nil, func(b *bubble) {
		b.eventually("three voters", func() bool { return voters(b) == 3 })
		leader := b.status().Leader
		var addr string
		for i, url := range b.PeerURLs() {
			if machine("peer", i) == leader {
				addr = url
			}
		}
		itself, err := client.New(client.Config{Addrs: []string{addr}, HTTP: b.http})
		if err != nil {
			t.Fatal(err)
		}
		if err := itself.RemovePeer(context.Background(), leader); err != nil {
			t.Fatalf("remove %s through itself: %v", leader, err)
		}
		b.eventually("two voters, and another leader", func() bool { return voters(b) == 2 && b.status().Leader != leader })
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := b.Wait(ctx); err != nil {
			t.Errorf("the others did not go on: %v", err)
		}
	})
}

func voters(b *bubble) int {
	peers, _, err := b.ctl.Peers(context.Background())
	n := 0
	for _, p := range peers {
		if p.Voter {
			n++
		}
	}
	if err != nil {
		return 0
	}
	return n
}
