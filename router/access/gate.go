package access

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// Gate admits requests by a file of keys. It is safe for concurrent use.
type Gate struct {
	mu      sync.Mutex
	clients map[[sha256.Size]byte]*Client
	models  map[string]*meter
}

// Client is who has a key.
type Client struct {
	Name   string
	models []string // never changed: a new file makes a new Client
	meter  *meter
}

// Denial is why a request may not go on.
type Denial struct {
	Message    string
	RetryAfter time.Duration // 0: it never may
}

// New makes a gate by a valid file.
func New(f File) *Gate {
	g := new(Gate)
	g.Take(f)
	return g
}

// Take replaces the file by another valid one. What is in flight, and what a rate has left, goes on under the same name;
// requests that were admitted before stay so.
func (g *Gate) Take(f File) {
	g.mu.Lock()
	defer g.mu.Unlock()
	clients, models := make(map[[sha256.Size]byte]*Client, len(f.Keys)), make(map[string]*meter, len(f.Models))
	old := make(map[string]*meter, len(g.clients))
	for _, c := range g.clients {
		old[c.Name] = c.meter
	}
	for _, k := range f.Keys {
		var sum [sha256.Size]byte
		_, _ = hex.Decode(sum[:], []byte(k.SHA256)) // valid
		clients[sum] = &Client{Name: k.Name, models: k.Models, meter: old[k.Name].with("the key "+k.Name, k.RequestsPerMinute, k.MaxInFlight)}
	}
	for _, m := range f.Models {
		models[m.Name] = g.models[m.Name].with("the model "+m.Name, m.RequestsPerMinute, m.MaxInFlight)
	}
	g.clients, g.models = clients, models
}

// Client returns who has the key. What is looked up is its hash, so the time that it takes says nothing of any key.
func (g *Gate) Client(key string) (*Client, bool) {
	sum := sha256.Sum256([]byte(key))
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.clients[sum]
	return c, ok
}

// May says whether the client may use the model, by its name.
func (c *Client) May(model string) bool {
	return len(c.models) == 0 || slices.Contains(c.models, model)
}

// Enter admits a request of the client to the model, by its name, or says why not. leave must be called at its end. A
// request that one limit denies takes nothing from the other.
func (g *Gate) Enter(c *Client, model string, now time.Time) (leave func(), denied *Denial) {
	if !c.May(model) {
		return nil, &Denial{Message: fmt.Sprintf("the key %s may not use the model %s", c.Name, model)}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.models[model]
	if denied := c.meter.obstacle(now); denied != nil {
		return nil, denied
	}
	if denied := m.obstacle(now); denied != nil {
		return nil, denied
	}
	c.meter.take()
	m.take()
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		c.meter.inFlight--
		if m != nil {
			m.inFlight--
		}
	}, nil
}

// meter holds requests to a rate, by a token bucket, and to a number at once. A nil meter has no limits.
type meter struct {
	whose       string
	rate, burst float64 // requests a second, and how many may come at once; rate 0: no limit
	tokens      float64
	filled      time.Time
	most        int // 0: no limit
	inFlight    int
}

// burstSeconds is how long a client may have been quiet for its rate to be made up for at once.
const burstSeconds = 10

// with is the meter under new limits; a nil one is new. The gate's lock is held.
func (m *meter) with(whose string, perMinute, most int) *meter {
	rate := float64(perMinute) / 60
	burst := max(1, rate*burstSeconds)
	if m == nil {
		return &meter{whose: whose, rate: rate, burst: burst, tokens: burst, most: most}
	}
	if m.rate == 0 {
		m.tokens, m.filled = burst, time.Time{}
	}
	m.rate, m.burst, m.tokens, m.most = rate, burst, min(m.tokens, burst), most
	return m
}

func (m *meter) obstacle(now time.Time) *Denial {
	switch {
	case m == nil:
		return nil
	case m.most > 0 && m.inFlight >= m.most:
		return &Denial{Message: fmt.Sprintf("%s has %d requests in flight, and no more may be", m.whose, m.inFlight), RetryAfter: time.Second}
	case m.rate == 0:
		return nil
	}
	if !m.filled.IsZero() {
		m.tokens = min(m.tokens+m.rate*now.Sub(m.filled).Seconds(), m.burst)
	}
	m.filled = now
	if m.tokens >= 1 {
		return nil
	}
	wait := time.Duration(math.Ceil((1-m.tokens)/m.rate*1000)) * time.Millisecond
	return &Denial{Message: fmt.Sprintf("%s may send %.3g requests a minute", m.whose, 60*m.rate), RetryAfter: wait}
}

func (m *meter) take() {
	if m == nil {
		return
	}
	m.inFlight++
	if m.rate > 0 {
		m.tokens--
	}
}
