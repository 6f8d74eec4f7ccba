package prefix

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func prompt(seed uint64, blocks int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	p := make([]byte, blocks*BlockSize)
	for i := range p {
		p[i] = byte(' ' + r.IntN(90))
	}
	return p
}

func TestChain(t *testing.T) {
	a := prompt(1, 10)
	b := slices.Concat(a[:5*BlockSize], prompt(2, 5))
	ca, cb := Chain(nil, 7, a), Chain(nil, 7, b)
	if len(ca) != 10 || !slices.Equal(ca[:5], cb[:5]) || ca[5] == cb[5] || ca[9] == cb[9] {
		t.Errorf("%x\n%x", ca, cb)
	}
	if cc := Chain(nil, 8, a); cc[0] == ca[0] {
		t.Error("the seed says nothing")
	}
	if n := len(Chain(nil, 7, a[:2*BlockSize-1])); n != 1 {
		t.Errorf("%d whole blocks", n)
	}
	if Sum(0, []byte("a")) == Sum(0, []byte("a\x00")) || Sum(0, nil) == Sum(0, bytes.Repeat([]byte{0}, 8)) {
		t.Error("lengths do not count")
	}
}

// TestMatchIsTheLongestPrefix against a set of what was added, while nothing has been evicted.
func TestMatchIsTheLongestPrefix(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	var x Index
	known := map[uint64]bool{}
	missed, found := 0, 0
	var prompts [][]byte
	for range 400 {
		p := prompt(r.Uint64(), 1+r.IntN(60))
		if len(prompts) > 0 && r.IntN(3) > 0 {
			base := prompts[r.IntN(len(prompts))]
			p = slices.Concat(base[:r.IntN(len(base)/BlockSize+1)*BlockSize], p)
		}
		chain := Chain(nil, 0, p)
		want := 0
		for want < len(chain) && known[chain[want]] {
			want++
		}
		got := x.Match(chain, r.IntN(70))
		if got > want {
			t.Fatalf("%d of %d blocks match, want %d", got, len(chain), want)
		}
		missed, found = missed+want-got, found+got
		x.Add(chain)
		for _, h := range chain {
			known[h] = true
		}
		prompts = append(prompts, p)
	}
	if missed > found/100 { // a full set drops what is still wanted now and then
		t.Errorf("%d blocks are missed, %d found", missed, found)
	}
	if x.Blocks() < len(known)*98/100 { // a full set may have dropped some
		t.Errorf("%d of %d blocks are remembered", x.Blocks(), len(known))
	}
	if per := float64(x.Bytes()) / float64(len(known)); per > 44 {
		t.Errorf("%.1f bytes a block right after the table has grown", per)
	}
}

// TestMatchesAreMatch of each.
func TestMatchesAreMatch(t *testing.T) {
	long := Chain(nil, 0, prompt(1, 20))
	var indexes []*Index
	var want []int
	for _, n := range []int{0, 20, 5, 0, 1, 12} {
		x := new(Index)
		x.Add(long[:n])
		indexes, want = append(indexes, x), append(want, n)
	}
	if got := Matches([]int{7}, indexes, long); !slices.Equal(got[1:], want) || got[0] != 7 {
		t.Errorf("%v, want 7 and %v", got, want)
	}
	if got := Matches(nil, indexes, nil); !slices.Equal(got, make([]int, 6)) {
		t.Errorf("no prompt: %v", got)
	}
}

// TestWhatIsOldIsUnknown: behind by more than the replica's capacity means evicted there; a use keeps it.
func TestWhatIsOldIsUnknown(t *testing.T) {
	var x Index
	x.SetLimit(100)
	kept, left := Chain(nil, 0, prompt(1, 10)), Chain(nil, 0, prompt(2, 10))
	x.Add(kept)
	x.Add(left)
	for i := range uint64(15) {
		x.Add(Chain(nil, 0, prompt(10+i, 10)))
		x.Add(kept)
	}
	if x.Match(kept, 0) != 10 || x.Match(left, 0) != 0 {
		t.Errorf("kept %d, left %d", x.Match(kept, 0), x.Match(left, 0))
	}
	if n, age := x.Remembered(left); n < 9 || age != 150 {
		t.Errorf("%d blocks of age %d are remembered", n, age)
	}
}

// TestMemoryIsBounded: whatever comes, and the newest is what is known.
func TestMemoryIsBounded(t *testing.T) {
	var x Index
	chain := make([]uint64, 100)
	r := rand.New(rand.NewPCG(3, 3))
	for range 4 * MaxBlocks / len(chain) {
		for i := range chain {
			chain[i] = r.Uint64()
		}
		x.Add(chain)
	}
	if x.Bytes() > 16*MaxBlocks || x.Match(chain, 0) != len(chain) {
		t.Errorf("%d bytes, %d of the newest %d blocks", x.Bytes(), x.Match(chain, 0), len(chain))
	}
}

// BenchmarkMatch is a prompt of 128 blocks looked up at 64 replicas that have a million blocks together; it is known to
// half of them, to its half.
func BenchmarkMatch(b *testing.B) {
	const replicas = 64
	indexes := make([]Index, replicas)
	r := rand.New(rand.NewPCG(4, 4))
	chain := make([]uint64, 128)
	prompts := make([][]uint64, 256)
	for i := range prompts {
		prompts[i] = make([]uint64, 128)
		for j := range prompts[i] {
			prompts[i][j] = r.Uint64()
		}
	}
	total := 0
	for i := range indexes {
		for range 1_000_000 / replicas / 128 {
			for j := range chain {
				chain[j] = r.Uint64()
			}
			indexes[i].Add(chain)
		}
		if i%2 == 0 {
			for _, p := range prompts {
				indexes[i].Add(p[:64])
			}
		}
		total += indexes[i].Blocks()
	}
	var all []*Index
	for i := range indexes {
		all = append(all, &indexes[i])
	}
	var found []int
	ways := map[string]func(chain []uint64){
		"together": func(chain []uint64) { found = Matches(found[:0], all, chain) },
		"in turn": func(chain []uint64) {
			guess := 0
			for _, x := range all {
				if n := x.Match(chain, guess); n > 0 {
					guess = n
				}
			}
		},
	}
	for name, look := range ways {
		b.Run(name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			took := make([]time.Duration, 0, 1<<20)
			for n := 0; b.Loop(); n++ {
				begin := threadTime(b)
				look(prompts[n%len(prompts)])
				took = append(took, threadTime(b)-begin)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
			b.ReportMetric(0, "ns/op") // has the clock's own time in it
		})
	}
	bytes := 0
	for i := range indexes {
		bytes += indexes[i].Bytes()
	}
	b.Logf("%d blocks, %.1f bytes each", total, float64(bytes)/float64(total))
}

// threadTime is the time that this thread has computed: what others do to a busy machine is not in it.
func threadTime(b *testing.B) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Skip("needs a clock of each thread's time: ", err)
	}
	return time.Duration(t.Nano())
}

func BenchmarkChain(b *testing.B) {
	p := prompt(1, 800)
	b.SetBytes(int64(len(p)))
	var chain []uint64
	for b.Loop() {
		chain = Chain(chain[:0], 0, p)
	}
}
