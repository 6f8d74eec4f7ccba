package router

import (
	"testing"
	"time"
)

func TestBootTimeGoesOn(t *testing.T) {
	a := bootTime()
	for start := time.Now(); time.Since(start) < 2*time.Millisecond; {
	}
	if d := bootTime() - a; d < 2*time.Millisecond || d > time.Minute {
		t.Errorf("2 ms took %v", d)
	}
}

func BenchmarkBootTime(b *testing.B) {
	for b.Loop() {
		bootTime()
	}
}
