package record

import (
	"errors"
	"io"
	"runtime"
	"sync"
)

// ahead is how many blocks are in memory at once: enough for every worker to have one in hand and one waiting.
const ahead = 4

// job is one block on its way through a worker.
type job[R any] struct {
	block  Block
	result R
	err    error
	done   chan struct{}
}

// Each reads a file to its end. Decode is called for each block, for several at once, and must look at nothing but its block, which is not its
// own after it returns; place is called with the results in the file's order, one at a time. The first error in the file's order ends it, whatever was decoded beyond.
func Each[R any](in *Reader, decode func(Block) (R, error), place func(R) error) error {
	workers := runtime.GOMAXPROCS(0)
	work, order := make(chan *job[R]), make(chan *job[R], workers+ahead)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	wg.Go(func() { feed(in, work, order, stop) })
	for range workers {
		wg.Go(func() {
			for j := range work {
				if j.err = j.block.check(); j.err == nil {
					j.result, j.err = decode(j.block)
				}
				in.recycle(j.block)
				close(j.done)
			}
		})
	}
	for j := range order {
		if <-j.done; j.err != nil {
			if errors.Is(j.err, io.EOF) {
				return nil
			}
			return j.err
		}
		if err := place(j.result); err != nil {
			return err
		}
	}
	return io.ErrUnexpectedEOF // feed ends with an error or at the end
}

// feed reads block after block and gives each to the workers and, in order, to the caller of Each. The end of the file is its last error.
func feed[R any](in *Reader, work, order chan<- *job[R], stop <-chan struct{}) {
	defer close(order)
	defer close(work)
	for {
		j := &job[R]{done: make(chan struct{})}
		j.block, j.err = in.next()
		if j.err != nil {
			close(j.done)
		}
		select {
		case order <- j:
		case <-stop:
			return
		}
		if j.err != nil {
			return
		}
		select {
		case work <- j:
		case <-stop:
			return
		}
	}
}

// Together runs functions at the same time and returns when all have. They must not share what they write to.
func Together(all ...func()) {
	var wg sync.WaitGroup
	for _, f := range all {
		wg.Go(f)
	}
	wg.Wait()
}
