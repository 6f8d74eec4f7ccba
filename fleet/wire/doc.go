// Package wire holds every message between Berth's processes, and what its API answers. JSON on HTTP; each message carries the version of its
// form where the two ends may be of different releases. There is no logic here and no timestamp: what was observed travels as an age.
package wire
