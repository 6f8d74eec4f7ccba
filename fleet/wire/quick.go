package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// A leader of a large fleet reads some thousand heartbeats and a hundred reports in a second, with tens of thousands of readings and uses in them;
// encoding/json takes most of that second's budget. So these two messages are read by hand where they are as Berth writes them. Whatever is not
// exactly so (another field, an escape, a null, a field twice, spaces) is left to encoding/json, so both ways read the same.

// ReadHeartbeat reads a heartbeat as encoding/json does.
func ReadHeartbeat(data []byte) (Heartbeat, error) {
	c := cursor{data: data}
	var h Heartbeat
	if c.heartbeat(&h); c.whole() {
		return h, nil
	}
	h = Heartbeat{}
	return h, json.Unmarshal(data, &h)
}

// ReadReport reads a router's report as encoding/json does.
func ReadReport(data []byte) (Report, error) {
	c := cursor{data: data}
	var r Report
	if c.report(&r); c.whole() {
		return r, nil
	}
	r = Report{}
	return r, json.Unmarshal(data, &r)
}

func (c *cursor) heartbeat(h *Heartbeat) {
	c.object(func(key []byte) (field int) {
		switch string(key) {
		case "version":
			h.Version, field = int(c.integer()), 0
		case "node":
			h.Node, field = c.text(), 1
		case "id":
			h.ID, field = c.text(), 2
		case "instance":
			h.Instance, field = c.natural(), 3
		case "seq":
			h.Seq, field = c.natural(), 4
		case "orders":
			h.Orders, field = c.text(), 5
		case "readings":
			h.Readings, field = c.readings(), 6
		case "gpus":
			field = 7
			c.other(&h.GPUs)
		default:
			c.odd = true
		}
		return field
	})
}

func (c *cursor) readings() []Reading {
	out := make([]Reading, 0, c.objects()/2+1) // most have a stamp in them
	c.ages = make([]float64, 0, 2*cap(out))
	var last written // most often all readings return one stamp
	c.list(func() {
		out = append(out, Reading{})
		c.reading(&out[len(out)-1], &last)
	})
	return out
}

// written is a stamp and how it was written.
type written struct {
	stamp *Stamp
	as    []byte
}

func (c *cursor) reading(r *Reading, last *written) {
	c.object(func(key []byte) (field int) {
		switch string(key) {
		case "replica":
			r.Replica, field = c.text(), 0
		case "shim":
			r.Shim, field = c.natural(), 1
		case "engine":
			r.Engine, field = c.natural(), 2
		case "number":
			r.Number, field = c.natural(), 3
		case "admissions":
			r.Admissions, field = c.natural(), 4
		case "in_flight":
			r.InFlight, field = int(c.integer()), 5
		case "use_age_seconds":
			r.UseAge, field = c.age(), 6
		case "ready_age_seconds":
			r.ReadyAge, field = c.age(), 7
		case "shut":
			r.Shut, field = c.yes(), 8
		case "stamp":
			r.Stamp, field = c.stamp(last), 9
		default:
			c.odd = true
		}
		return field
	})
}

// stamp reads a stamp, and gives the last one again where it is written the same: nobody changes one.
func (c *cursor) stamp(last *written) *Stamp {
	from := min(c.at, len(c.data))
	if last.stamp != nil && bytes.HasPrefix(c.data[from:], last.as) {
		c.at += len(last.as)
		return last.stamp
	}
	s := new(Stamp)
	c.object(func(key []byte) (field int) {
		switch string(key) {
		case "leader":
			s.Leader = c.text()
		case "term":
			s.Term, field = c.natural(), 1
		case "clock":
			s.Clock, field = c.integer(), 2
		default:
			c.odd = true
		}
		return field
	})
	if !c.odd {
		*last = written{s, c.data[from:c.at]}
	}
	return s
}

func (c *cursor) report(r *Report) {
	c.object(func(key []byte) (field int) {
		switch string(key) {
		case "version":
			r.Version, field = int(c.integer()), 0
		case "router":
			r.Router, field = c.text(), 1
		case "boot":
			r.Boot, field = c.natural(), 2
		case "seq":
			r.Seq, field = c.natural(), 3
		case "release":
			r.Release, field = c.text(), 4
		case "address":
			r.Address, field = c.text(), 5
		case "admin":
			r.Admin, field = c.text(), 6
		case "table":
			field = 7
			c.other(&r.Table)
		case "all":
			r.All, field = c.yes(), 8
		case "uses":
			r.Uses, field = c.uses(), 9
		case "demand":
			field = 10
			c.other(&r.Demand)
		default:
			c.odd = true
		}
		return field
	})
}

func (c *cursor) uses() map[string]Use {
	out := make(map[string]Use, c.objects())
	c.entries(func(key []byte) {
		var u Use
		c.object(func(key []byte) (field int) {
			switch string(key) {
			case "age_seconds":
				u.Age = c.float()
			case "in_flight":
				u.InFlight, field = int(c.integer()), 1
			default:
				c.odd = true
			}
			return field
		})
		out[string(key)] = u
	})
	return out
}

// age reads a number that may be absent. The numbers of a message lie in one place.
func (c *cursor) age() *float64 {
	c.ages = append(c.ages, c.float())
	return &c.ages[len(c.ages)-1]
}

// cursor goes through a document. Once it has met something odd it reads no further, and what it has read is worth nothing.
type cursor struct {
	data []byte
	at   int
	odd  bool
	ages []float64
	deep int // values that are being skipped, one inside the other
}

// deepest is how deep a value that is skipped may be nested: no message of Berth's comes near, and a hostile one must not use up the stack.
const deepest = 32

// whole says whether all of the document was read and nothing was odd.
func (c *cursor) whole() bool { return !c.odd && c.at == len(c.data) }

// objects is how many objects begin in the rest of the document, at most: as much as what is read there can need.
func (c *cursor) objects() int { return bytes.Count(c.data[min(c.at, len(c.data)):], []byte{'{'}) }

// take goes past one byte, if it is the next one.
func (c *cursor) take(b byte) bool {
	if c.odd || c.at >= len(c.data) || c.data[c.at] != b {
		return false
	}
	c.at++
	return true
}

func (c *cursor) must(b byte) {
	if !c.take(b) {
		c.odd = true
	}
}

// entries goes through an object; fn reads the value of a key.
func (c *cursor) entries(fn func(key []byte)) {
	if c.must('{'); c.take('}') {
		return
	}
	for !c.odd {
		key := c.raw()
		c.must(':')
		if !c.odd {
			fn(key)
		}
		if !c.take(',') {
			c.must('}')
			return
		}
	}
}

// object goes through an object with known fields; fn reads the value of a key and gives the field's number, below 32. No field may come twice.
func (c *cursor) object(fn func(key []byte) (field int)) {
	seen := uint32(0)
	c.entries(func(key []byte) {
		field := uint32(1) << fn(key)
		c.odd = c.odd || seen&field != 0
		seen |= field
	})
}

func (c *cursor) list(fn func()) {
	if c.must('['); c.take(']') {
		return
	}
	for !c.odd {
		fn()
		if !c.take(',') {
			c.must(']')
			return
		}
	}
}

// raw reads a string of plain ASCII, as it is in the document.
func (c *cursor) raw() []byte {
	c.must('"')
	for from := c.at; !c.odd && c.at < len(c.data); c.at++ {
		switch b := c.data[c.at]; {
		case b == '"':
			c.at++
			return c.data[from : c.at-1]
		case b < ' ' || b > '~' || b == '\\':
			c.odd = true
		}
	}
	c.odd = true
	return nil
}

func (c *cursor) text() string { return string(c.raw()) }

func (c *cursor) yes() bool {
	for _, word := range []string{"true", "false"} {
		if end := c.at + len(word); !c.odd && end <= len(c.data) && string(c.data[c.at:end]) == word {
			c.at = end
			return word == "true"
		}
	}
	c.odd = true
	return false
}

// digits reads at least one digit.
func (c *cursor) digits() {
	from := c.at
	for c.at < len(c.data) && c.data[c.at]-'0' <= 9 {
		c.at++
	}
	c.odd = c.odd || c.at == from
}

// number reads a number of JSON, which begins with no needless zero.
func (c *cursor) number() (number []byte, fraction bool) {
	from := c.at
	c.take('-')
	if !c.take('0') {
		c.digits()
	}
	if c.take('.') {
		fraction = true
		c.digits()
	}
	if c.take('e') || c.take('E') {
		fraction = true
		if !c.take('+') {
			c.take('-')
		}
		c.digits()
	}
	return c.data[from:c.at], fraction
}

func (c *cursor) integer() int64 {
	number, fraction := c.number()
	n, err := strconv.ParseInt(string(number), 10, 64)
	c.odd = c.odd || fraction || err != nil
	return n
}

func (c *cursor) natural() uint64 {
	number, fraction := c.number()
	n, err := strconv.ParseUint(string(number), 10, 64)
	c.odd = c.odd || fraction || err != nil
	return n
}

func (c *cursor) float() float64 {
	number, _ := c.number()
	f, err := strconv.ParseFloat(string(number), 64)
	c.odd = c.odd || err != nil
	return f
}

// other leaves a value to encoding/json: small ones, and those with an encoding of their own.
func (c *cursor) other(into any) {
	from := c.at
	c.skip()
	c.odd = c.odd || json.Unmarshal(c.data[from:c.at], into) != nil
}

// skip goes past a value.
func (c *cursor) skip() {
	c.deep++
	defer func() { c.deep-- }()
	if c.odd || c.at >= len(c.data) || c.deep > deepest {
		c.odd = true
		return
	}
	switch c.data[c.at] {
	case '{':
		c.entries(func([]byte) { c.skip() })
	case '[':
		c.list(c.skip)
	case '"':
		c.raw()
	case 't', 'f':
		c.yes()
	default:
		c.number()
	}
}
