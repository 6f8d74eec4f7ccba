package consensus

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"berth/fleet"
)

// The raft port's own protocol, version 1. raft has no notion of a cluster: whoever reaches its port can depose the
// leader (raft issue 70). So each connection begins with
//
//	client → magic "BRFT", version byte, kind byte, frame(hello)
//	server → frame(welcome)
//
// where a frame is a 4-byte big-endian length and that much JSON. After it come raft's own bytes (kindRaft), or frames
// of requests and answers in turn (kindCall). Unknown JSON fields are ignored, so that neighbouring versions understand
// each other; what must be understood raises the version byte.
const (
	portMagic   = "BRFT"
	portVersion = 1

	kindRaft byte = 'R'
	kindCall byte = 'C'

	maxFrame = 64 << 10
)

// hello says who calls whom.
type hello struct {
	Cluster string `json:"cluster,omitempty"` // empty: in none yet
	From    string `json:"from"`
	To      string `json:"to,omitempty"` // empty: whoever answers, for calls to an address without a known id
	// Instance tells a peer that has dialled itself, by another name of its address, from a second peer of its id.
	Instance string `json:"instance"`
}

// welcome says who answers, or why not.
type welcome struct {
	ID      string       `json:"id"`
	Cluster string       `json:"cluster,omitempty"`
	Refused *fleet.Error `json:"refused,omitempty"`
}

// greet is the client's side.
func greet(conn io.ReadWriter, kind byte, h hello) (welcome, error) {
	var w welcome
	head := append([]byte(portMagic), portVersion, kind)
	body, err := encodeFrame(h)
	if err != nil {
		return w, err
	}
	if _, err := conn.Write(append(head, body...)); err != nil {
		return w, err
	}
	if err := readFrame(conn, &w); err != nil {
		return w, fmt.Errorf("no raft port of this program answers: %w", err)
	}
	if w.Refused != nil {
		return w, w.Refused
	}
	if h.To != "" && w.ID != h.To {
		return w, fleet.Errorf(fleet.Conflict, "peer %s answers where peer %s was expected", w.ID, h.To)
	}
	return w, nil
}

// errNotOurs is for bytes that are not this protocol: a scanner, a browser, a wrong port.
var errNotOurs = errors.New("not a raft port's client")

// receive is the server's side up to its answer.
func receive(conn io.Reader) (kind byte, h hello, err error) {
	head := make([]byte, len(portMagic)+2)
	if _, err := io.ReadFull(conn, head); err != nil {
		return 0, h, err
	}
	if string(head[:len(portMagic)]) != portMagic {
		return 0, h, errNotOurs
	}
	version, kind := head[len(head)-2], head[len(head)-1]
	if version != portVersion {
		return 0, h, fmt.Errorf("raft port protocol %d, this peer speaks %d", version, portVersion)
	}
	if kind != kindRaft && kind != kindCall {
		return 0, h, fmt.Errorf("unknown kind of connection %q", kind)
	}
	return kind, h, readFrame(conn, &h)
}

func encodeFrame(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(body) > maxFrame {
		return nil, fmt.Errorf("message of %d bytes, the limit is %d", len(body), maxFrame)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...), nil
}

func writeFrame(w io.Writer, v any) error {
	frame, err := encodeFrame(v)
	if err != nil {
		return err
	}
	_, err = w.Write(frame)
	return err
}

// readFrame takes exactly one frame from the reader, so that what follows is left to the next one.
func readFrame(r io.Reader, v any) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return fmt.Errorf("message of %d bytes, the limit is %d", n, maxFrame)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	return json.Unmarshal(body, v)
}

// admit decides about a caller, given who we are. A peer that is in no cluster answers calls, but raft speaks to it
// only in the cluster to which it has given its promise.
func admit(me record, kind byte, h hello) *fleet.Error {
	switch {
	case h.From == me.ID:
		return fleet.Errorf(fleet.DuplicateID, "peer %s is called by a peer of its own id", me.ID).
			WithHint("two peers were started with one --name, or on copies of one data directory")
	case h.To != "" && h.To != me.ID, h.To == "" && kind == kindRaft:
		return fleet.Errorf(fleet.Conflict, "this is peer %s, not %q", me.ID, h.To).WithHint("an address has changed hands")
	case h.Cluster != "" && me.Cluster != "" && h.Cluster != me.Cluster:
		return fleet.Errorf(fleet.WrongCluster, "peer %s belongs to cluster %s, peer %s to %s", me.ID, me.Cluster, h.From, h.Cluster)
	case kind == kindCall:
		return nil
	case h.Cluster == "":
		return fleet.Errorf(fleet.WrongCluster, "peer %s is in no cluster and speaks raft", h.From)
	case me.Cluster == "" && (me.Promise == nil || me.Promise.Cluster != h.Cluster):
		return fleet.Errorf(fleet.NotReady, "peer %s has joined no cluster yet", me.ID)
	}
	return nil
}
