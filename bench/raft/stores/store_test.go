package stores

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/consensus/wal"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	raftwal "github.com/hashicorp/raft-wal"
	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

func bolt(o *bbolt.Options) func(dir string) (raft.LogStore, error) {
	return func(dir string) (raft.LogStore, error) {
		return raftboltdb.New(raftboltdb.Options{Path: filepath.Join(dir, "raft.db"), BoltOptions: o})
	}
}

var kinds = []struct {
	name string
	open func(dir string) (raft.LogStore, error)
}{
	{"raft-boltdb", bolt(nil)},
	{"raft-boltdb-tuned", bolt(&bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType})},
	{"raft-boltdb-mapped", bolt(&bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, InitialMmapSize: 1 << 30})},
	{"raft-wal", func(dir string) (raft.LogStore, error) { return raftwal.Open(dir) }},
	{"berth", func(dir string) (raft.LogStore, error) { return wal.Open(dir) }},
}

// cpu is what this process has used, in seconds.
func cpu() float64 {
	var r unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
}

// BenchmarkStore is one write of so many entries of 830 bytes, which is what a model of 256 bytes of payload makes.
func BenchmarkStore(b *testing.B) {
	data := []byte(strings.Repeat("x", 830))
	for _, n := range []int{1, 16, 64} {
		for _, k := range kinds {
			b.Run(fmt.Sprintf("%d/%s", n, k.name), func(b *testing.B) {
				s, err := k.open(b.TempDir())
				if err != nil {
					b.Fatal(err)
				}
				next := uint64(1)
				began := cpu()
				for b.Loop() {
					logs := make([]*raft.Log, n)
					for i := range logs {
						logs[i] = &raft.Log{Index: next, Term: 1, Type: raft.LogCommand, Data: data, AppendedAt: time.Now()}
						next++
					}
					if err := s.StoreLogs(logs); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric((cpu()-began)*1e6/float64(b.N*n), "cpu-us/entry")
			})
		}
	}
}
