package pool

import "time"

// pace is what has been learned of how long an engine takes to its first token: a fixed time and a time a byte of prompt
// that it has to compute. It is a line through observations of which older ones fade, by weighted least squares.
type pace struct{ n, x, w, xx, xw float64 }

const (
	paceFade = 0.97 // of an observation with each newer one: about thirty count
	// Before there are observations: eight thousand tokens a second of four bytes each, a usual rate of one card.
	priorFixed   = 0.02
	priorPerByte = 1.0 / 32_000
	priorBytes   = 32 << 10
	leastPerByte = 1e-9
)

// learn takes one observation: seconds for bytes.
func (p *pace) learn(bytes, seconds, weight float64) {
	p.n, p.x, p.w, p.xx, p.xw = p.n*paceFade, p.x*paceFade, p.w*paceFade, p.xx*paceFade, p.xw*paceFade
	p.add(pace{1, bytes, seconds, bytes * bytes, bytes * seconds}, weight)
}

func (p *pace) add(o pace, weight float64) {
	p.n += weight * o.n
	p.x += weight * o.x
	p.w += weight * o.w
	p.xx += weight * o.xx
	p.xw += weight * o.xw
}

// line returns the seconds a request takes and those a byte takes beside. model is what was learned of all replicas of
// the model, which stands in while little is known of this one.
func (p pace) line(model pace) (fixed, perByte float64) {
	if model.n > 0 {
		p.add(model, 2/(model.n+1))
	}
	for _, x := range [...]float64{0, priorBytes} {
		w := priorFixed + priorPerByte*x
		p.add(pace{1, x, w, x * x, x * w}, 0.1)
	}
	if spread := p.n*p.xx - p.x*p.x; spread > 0 {
		perByte = (p.n*p.xw - p.x*p.w) / spread
	}
	fixed = (p.w - perByte*p.x) / p.n
	switch {
	case perByte < leastPerByte:
		return p.w / p.n, leastPerByte
	case fixed < 0:
		return 0, p.w / p.x
	}
	return fixed, perByte
}

// queue is the prompts that a replica has yet to compute, as far as this router sent them.
type queue struct {
	streams int           // whose first byte has not come
	bytes   float64       // uncached, of these
	since   time.Duration // the newest first byte, or the arrival of the first of them
	busy    time.Duration // until then it computes prompts whose first byte cannot be seen, because their answer comes whole

	others int           // streams that wait there and were not sent by this router, when the engine last told
	told   time.Duration // of that
}

// wait is how long a new request would wait until its own prompt is computed. typical is what a prompt takes that is not known.
func (q *queue) wait(now time.Duration, fixed, perByte, typical float64) float64 {
	wait := max(q.busy-now, 0).Seconds()
	if q.crowded(now) {
		wait += max(float64(q.others)*typical-max(now-q.told, 0).Seconds(), 0)
	}
	if q.streams > 0 {
		all := float64(q.streams)*fixed + q.bytes*perByte
		done := max(now-q.since, 0).Seconds() // of the one that is being computed, which is taken for an average one
		wait += all - min(done, all/float64(q.streams))
	}
	return wait
}

// toldFor is how long what an engine told of its queue is believed.
const toldFor = 5 * time.Second

// crowded says whether others wait there too.
func (q *queue) crowded(now time.Duration) bool { return q.others > 0 && now-q.told < toldFor }

// tell takes the number of requests that wait for their computing, as the engine tells it. Where any wait, one is being
// computed before them.
func (q *queue) tell(now time.Duration, waiting int) {
	q.others, q.told = 0, now
	if waiting > 0 {
		q.others = max(waiting+1-q.streams, 0)
	}
}

// join puts a request into the queue.
func (q *queue) join(now time.Duration, stream bool, bytes, seconds float64) {
	if !stream {
		q.busy = max(q.busy, now) + time.Duration(seconds*float64(time.Second))
		return
	}
	if q.streams == 0 {
		q.since = now
	}
	q.streams++
	q.bytes += bytes
}

// leave takes a stream out of it. begun says that its first byte came now, so that the next one's computing begins.
func (q *queue) leave(now time.Duration, bytes float64, begun bool) {
	q.streams--
	q.bytes = max(q.bytes-bytes, 0)
	if begun {
		q.since = now
	}
	if q.streams == 0 {
		q.bytes = 0
	}
}
