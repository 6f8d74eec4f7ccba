package memnet_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/memnet"
)

// TestRandomTraffic checks what a stream promises whatever happens to its link: the reader gets a prefix of what was
// written, all of it when nothing was reset, and nobody waits for ever.
func TestRandomTraffic(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	for range 60 {
		synctest.Test(t, func(t *testing.T) { randomRun(t, dice) })
	}
}

func randomRun(t *testing.T, dice *rand.Rand) {
	n := memnet.New(dice.Uint64())
	n.SetLatency(time.Duration(dice.IntN(20)) * time.Millisecond)
	near, far := pair(t, n.Host("a"), n.Host("b"))
	sent := make([]byte, dice.IntN(300_000))
	for i := range sent {
		sent[i] = byte(dice.Uint32())
	}
	end := dice.IntN(3)
	time.AfterFunc(time.Duration(dice.IntN(30))*time.Millisecond, func() {
		switch end {
		case 1:
			n.Cut("b", "a")
		case 2:
			n.Stall("a", "b")
			time.AfterFunc(time.Minute, func() { n.Heal("b") })
		}
	})
	wrote := make(chan int)
	go send(near, sent, rand.New(rand.NewPCG(dice.Uint64(), 1)), wrote)
	got, err := io.ReadAll(far)
	far.Close()
	total := <-wrote
	if !bytes.HasPrefix(sent, got) {
		t.Errorf("%d bytes read are no prefix of what was sent", len(got))
	}
	if err == nil && (len(got) != len(sent) || total != len(sent)) {
		t.Errorf("clean end after %d of %d bytes, %d accepted", len(got), len(sent), total)
	}
	if err != nil && end != 1 {
		t.Errorf("reset without a cut: %v", err)
	}
	if err := near.Close(); err == nil {
		t.Error("the sender had not closed")
	}
}

// send writes in pieces with pauses, closes, and tells how much was accepted.
func send(c net.Conn, p []byte, dice *rand.Rand, wrote chan<- int) {
	total := 0
	for total < len(p) {
		n, err := c.Write(p[total:min(len(p), total+1+dice.IntN(100_000))])
		total += n
		if err != nil {
			break
		}
		time.Sleep(time.Duration(dice.IntN(3)) * time.Millisecond)
	}
	c.Close()
	wrote <- total
}
