package fleet

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration written the way people write it in model files: "10m", "1h30m", "250ms".
type Duration time.Duration

// String returns the shortest Go form: "10m", not "10m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Std returns d as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration; write it like 10m, 1h30m or 45s", text)
	}
	if v < 0 {
		return fmt.Errorf("%q is negative; a duration here is at least 0s", text)
	}
	*d = Duration(v)
	return nil
}

// Bytes is an amount of memory or disk in bytes, written with a binary unit: "40GiB".
type Bytes int64

// Binary units of Bytes.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
	TiB Bytes = 1 << 40
)

var byteUnits = []struct {
	suffix string
	size   Bytes
}{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}}

// String writes b exactly, in the largest unit that divides it.
func (b Bytes) String() string {
	for _, u := range byteUnits {
		if b != 0 && b%u.size == 0 {
			return strconv.FormatInt(int64(b/u.size), 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// MarshalText implements encoding.TextMarshaler.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It takes "40GiB", "512MiB", "1.5TiB" and "123B"; decimal units are refused, because
// 80GB and 80GiB differ by seven percent and a card that is seven percent too small fails in the night.
func (b *Bytes) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	num, unit := s, Bytes(0)
	for _, u := range byteUnits {
		if strings.HasSuffix(s, u.suffix) {
			num, unit = strings.TrimSuffix(s, u.suffix), u.size
			break
		}
	}
	if unit == 0 && strings.HasSuffix(s, "B") && !strings.HasSuffix(s, "iB") {
		if n := strings.TrimSuffix(s, "B"); n != "" && n[len(n)-1] >= '0' && n[len(n)-1] <= '9' {
			num, unit = n, 1
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
	if unit == 0 || err != nil || v < 0 || math.IsNaN(v) || v*float64(unit) >= math.MaxInt64 {
		return fmt.Errorf("%q is not a size; write it with a unit: 40GiB, 512MiB", text)
	}
	*b = Bytes(v * float64(unit))
	return nil
}

// Time is a moment in UTC, in milliseconds since 1970; a proposer stamps it, and its zero value means that there is none (it is left out of
// JSON by omitzero). It exists so that no year 1 and no local time zone can be expressed on the wire.
type Time int64

// TimeOf returns t as a Time; the zero time.Time gives no Time.
func TimeOf(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(t.UnixMilli())
}

// Std returns t in UTC.
func (t Time) Std() time.Time { return time.UnixMilli(int64(t)).UTC() }

// MarshalJSON writes RFC 3339 in UTC.
func (t Time) MarshalJSON() ([]byte, error) {
	if t == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(t.Std().Format("2006-01-02T15:04:05.000Z07:00"))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Time) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*t = 0
		return nil
	}
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	v, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return fmt.Errorf("%q is not a time; write it as RFC 3339 in UTC", s)
	}
	*t = Time(v.UnixMilli())
	return nil
}
