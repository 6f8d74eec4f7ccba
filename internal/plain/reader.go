package plain

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
)

// Room is a buffer: for a head and a usual body, or a few events of a stream.
type Room [8 << 10]byte

var rooms = sync.Pool{New: func() any { return new(Room) }}

// TakeRoom gives a buffer whose content is of others before.
func TakeRoom() *Room { return rooms.Get().(*Room) }

// GiveRoom takes one back.
func GiveRoom(r *Room) { rooms.Put(r) }

// Reader reads a connection. While it waits for bytes and has none it holds no buffer, if the connection has a socket.
// It is used by one goroutine at a time.
type Reader struct {
	conn     net.Conn
	raw      syscall.RawConn // nil: no socket
	room     *Room           // nil while nothing is in it
	from, to int
	once     func(fd uintptr) bool // fromSocket, made once
	err      error
}

// NewReader reads a connection.
func NewReader(c net.Conn) *Reader {
	r := &Reader{conn: c, raw: socketOf(c)}
	r.once = r.fromSocket
	return r
}

// Socket is the connection's socket; nil if it has none.
func (r *Reader) Socket() syscall.RawConn { return r.raw }

// Bytes are those that were read and not taken, until the next Fill or Take.
func (r *Reader) Bytes() []byte {
	if r.room == nil {
		return nil
	}
	return r.room[r.from:r.to]
}

// Buffered is how many they are.
func (r *Reader) Buffered() int { return r.to - r.from }

// Take drops n of them.
func (r *Reader) Take(n int) {
	if r.from += n; r.from >= r.to && r.room != nil {
		GiveRoom(r.room)
		r.room, r.from, r.to = nil, 0, 0
	}
}

// ErrFull is returned by Fill when the room is full.
var ErrFull = errors.New("no room for more")

// Fill waits for more bytes and reads once.
func (r *Reader) Fill() error {
	if r.from > 0 {
		r.to = copy(r.room[:], r.room[r.from:r.to])
		r.from = 0
	}
	if r.to == len(Room{}) {
		return ErrFull
	}
	if r.raw != nil {
		if err := r.raw.Read(r.once); err != nil {
			return err
		}
		return r.err
	}
	r.hold()
	n, err := r.conn.Read(r.room[r.to:])
	return r.came(n, err)
}

// Preload puts a byte in that was read before.
func (r *Reader) Preload(b byte) {
	r.hold()
	r.room[r.to] = b
	r.to++
}

func (r *Reader) hold() {
	if r.room == nil {
		r.room = TakeRoom()
	}
}

func (r *Reader) came(n int, err error) error {
	if r.to += max(n, 0); n > 0 {
		return nil
	}
	r.Take(0)
	if err == nil {
		return io.EOF
	}
	return err
}

// fromSocket reads from the socket; false asks to be called again when there is something.
func (r *Reader) fromSocket(fd uintptr) bool {
	r.hold()
	n, err := read(fd, r.room[r.to:])
	r.err = r.came(n, err)
	return !errors.Is(err, syscall.EAGAIN)
}

// Read implements io.Reader: what was read before, then the connection itself.
func (r *Reader) Read(p []byte) (int, error) {
	if r.room == nil {
		return r.conn.Read(p)
	}
	n := copy(p, r.room[r.from:r.to])
	r.Take(n)
	return n, nil
}
